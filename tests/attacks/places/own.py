"""A service whose own data is under attack."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import ENGINE_2, ENGINES
from tests.support.running import PASSPHRASE, Running
from tests.support.service import Client, wait_until
from tests.support.warm_engines import warm_program

NAMES = ("secret.key", "holdfast.db", "install-id")


def data_folder(running: Running) -> Path:
    return running.process.data_dir


def repository_of(running: Running, *sources: Path | str, engine: int = 1, **more: Any) -> dict[str, Any]:
    """A repository with these sources, without the flags that exclude machine folders in the backups of other tests."""
    if engine == 2:
        more = {"encryption": "none", "engine_version": 2, **more}
    return running.new_repository(source_paths=[str(source) for source in sources], custom_flags=[], **more)


def backed_up(client: Client, repository: dict[str, Any], **more: Any) -> dict[str, Any]:
    return client.wait_for_end(client.start_backup(repository, **more))


def archived(running: Running, repository: dict[str, Any], operation: dict[str, Any]) -> list[str]:
    """The paths in the archive of a backup, as the engine itself lists them."""
    archive = operation["details"]["archive"] if "details" in operation else operation["result"]["archive"]
    return listed(running, repository, archive["name"], archive["id"])


def listed(running: Running, repository: dict[str, Any], name: str, engine_id: str) -> list[str]:
    environment = {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "BORG_HOST_ID": "the machine of the tests",
        "BORG_BASE_DIR": str(running.folder / "looking-on"),
        "BORG_PASSPHRASE": PASSPHRASE,
        "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
        "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
    }
    if repository["engine_version"] == 2:
        command = [str(warm_program(ENGINE_2)), "-r", repository["path"], "list", "--short", f"aid:{engine_id}"]
    else:
        command = [str(warm_program(ENGINES[running.engine])), "list", "--short", f"{repository['path']}::{name}"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def own_files(paths: list[str]) -> list[str]:
    """The files of the service; other tests may have left forged ones beside them."""
    return [path for path in paths if path.rpartition("/")[2] in NAMES and "/forged-" not in path]


def archive_id(client: Client, repository: dict[str, Any]) -> int:
    """The id of the newest archive, once it is in the index."""

    def known() -> int | None:
        archives = client.get(f"/api/repositories/{repository['id']}/archives").json()["archives"]
        return archives[0]["id"] if archives else None

    return wait_until(known, what="the archive is in the index")


@contextmanager
def bound(folder: Path, at: Path) -> Iterator[None]:
    """Bind-mount the folder at a second path."""
    at.mkdir(parents=True)
    ran = subprocess.run(["mount", "--bind", str(folder), str(at)], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        pytest.skip(f"mounting is not permitted here: {ran.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(at)], check=True)
