"""Restores as a way to overwrite the service's own data, or a repository."""

import os
import tempfile
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from shutil import copymode
from typing import Any

import pytest

from tests.attacks.places.own import backed_up, bound, data_folder, repository_of
from tests.attacks.places.test_backups import engines
from tests.support.running import Running
from tests.support.service import Client


def restored(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post("/api/restore/start", json=body)
    assert answer.status_code == 200, answer.text
    client.wait_for_end(answer.json()["job_id"])
    status: dict[str, Any] = client.get(f"/api/restore/status/{answer.json()['job_id']}").json()
    return status


def refusal(client: Client, body: dict[str, Any]) -> tuple[int, str]:
    answer = client.post("/api/restore/start", json=body)
    return answer.status_code, answer.json()["detail"]["key"]


class Forged:
    """An archive that contains, under a prefix, files that an attacker wants to have in a folder of the machine."""

    def __init__(self, running: Running, engine: int = 1) -> None:
        self.running = running
        self.source = running.new_folder("forged")
        self.engine = engine

    def put(self, place: Path | str, text: str = "forged") -> None:
        file = self.source / str(place).lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        for folder in takewhile(lambda folder: folder != self.source, file.parents):
            if (there := "/" / folder.relative_to(self.source)).is_dir():
                copymode(there, folder)  # a restore to / gives the machine's folders the archived modes

    def body(self, destination: Path | str, **more: Any) -> dict[str, Any]:
        """A restore of all forged files, which are written below the destination without the prefix."""
        repository = repository_of(self.running, self.source, engine=self.engine)
        ended = backed_up(self.running.admin, repository)
        return {
            "repository_id": repository["id"],
            "archive": ended["archive_name"],
            "paths": [str(self.source)],
            "destination": str(destination),
            "restore_layout": "contents_only",
            "overwrite": "replace",
            **more,
        }


def own_archive(running: Running) -> dict[str, Any]:
    """The request for a restore from an archive that contains the data folder and another source."""
    source, data = running.new_source(), data_folder(running)
    repository = repository_of(running, source, data, own_places_confirmed=True)
    ended = backed_up(running.admin, repository)
    return {"repository_id": repository["id"], "archive": ended["archive_name"], "overwrite": "replace"}


def test_a_restore_that_names_a_file_of_the_data_folder_does_not_replace_it(running: Running) -> None:
    install_id = data_folder(running) / "install-id"
    before = install_id.read_bytes(), install_id.stat().st_ino

    body = {**own_archive(running), "destination": "/", "paths": [str(install_id)]}

    assert refusal(running.admin, body) == (422, "restore.destination_forbidden")
    assert (install_id.read_bytes(), install_id.stat().st_ino) == before


@pytest.fixture
def beside() -> Iterator[Path]:
    """A folder on the file system of `/`: a restore writes to no other, and the tests' own may be in memory."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root restores to /")
@engines
def test_a_wide_restore_skips_the_data_folder_and_warns_about_it(running: Running, engine: int, beside: Path) -> None:
    data = data_folder(running)
    install_id = (data / "install-id").read_bytes()
    forged = Forged(running, engine)
    forged.put(data / "install-id")
    forged.put(data / "secret.key")
    forged.put(beside / "wanted", "wanted")

    status = restored(running.admin, forged.body("/"))

    assert status["status"] == "completed_with_warnings", status
    assert (data / "install-id").read_bytes() == install_id
    assert (beside / "wanted").read_text() == "wanted"
    assert (status["result"]["files_restored"], status["result"]["files_passed_over"]) == (1, 2)
    assert str(data).lstrip("/") in status["result"]["passed_over"][0]["path"]
    assert "2 files were skipped because" in status["warnings"][0]["message"]


def test_the_config_of_another_repository_is_not_overwritten(running: Running) -> None:
    other = Path(running.new_repository()["path"])
    config = (other / "config").read_bytes()
    forged = Forged(running)
    forged.put(f"{other.name}/config")
    forged.put("harmless")

    status = restored(running.admin, forged.body(other.parent))

    assert (other / "config").read_bytes() == config
    assert (status["status"], status["result"]["files_passed_over"]) == ("completed_with_warnings", 1)
    (other.parent / "harmless").unlink()


def test_a_restore_of_only_own_files_fails_before_anything_is_written(running: Running) -> None:
    data = data_folder(running)
    forged = Forged(running)
    forged.put(data / "new" / "file")

    status = restored(running.admin, forged.body("/"))

    assert (status["status"], status["error_key"]) == ("failed", "restore.destination_forbidden")
    assert not (data / "new").exists()


def test_a_second_mount_of_the_data_folder_is_protected(running: Running, tmp_path: Path) -> None:
    install_id = (data_folder(running) / "install-id").read_bytes()
    forged = Forged(running)
    forged.put("mounted/install-id")
    forged.put("mounted/deep/install-id")
    forged.put("harmless")

    with bound(data_folder(running), tmp_path / "mounted"):
        status = restored(running.admin, forged.body(tmp_path))
        body = forged.body(tmp_path / "mounted" / "deep")
        assert refusal(running.admin, body) == (422, "restore.destination_forbidden")

    assert (data_folder(running) / "install-id").read_bytes() == install_id
    assert (status["result"]["files_restored"], status["result"]["files_passed_over"]) == (1, 2)


def test_a_restored_file_does_not_replace_a_link_above_a_repository(running: Running) -> None:
    """The repository is registered under a path through a link; without the link it cannot be found."""
    behind, link = running.new_folder("behind"), running.new_path("link")
    link.symlink_to(behind)
    running.new_repository(path=link / running.new_name("behind-link"))
    forged = Forged(running)
    forged.put(link.name)
    forged.put("harmless")

    status = restored(running.admin, forged.body(link.parent))

    assert link.is_symlink()
    assert (status["status"], status["error_key"]) == ("failed", "restore.incomplete")
    assert status["result"]["failed"][0]["path"].endswith(link.name)
    (link.parent / "harmless").unlink()


def test_a_restored_file_does_not_replace_a_folder_above_the_data_folder(running: Running) -> None:
    above = data_folder(running).parent
    forged = Forged(running)
    forged.put(above.name)
    forged.put("harmless")

    status = restored(running.admin, forged.body(above.parent))

    assert above.is_dir()
    assert (status["status"], status["result"]["files_failed"]) == ("failed", 1)
    (above.parent / "harmless").unlink()


def test_a_restore_does_not_recreate_a_repository_on_an_unmounted_disk(running: Running) -> None:
    """Its folder does not exist; files written there would be hidden by the mount, or mistaken for the repository."""
    disk = running.new_folder("disk")
    repository = disk / running.new_name("unmounted")
    running.new_repository(path=repository)
    away = running.new_path("away")
    os.rename(disk, away)
    forged = Forged(running)
    forged.put(f"{disk.name}/{repository.name}/config")
    forged.put(f"{disk.name}/beside")
    (forged.source / disk.name).chmod(0o751)

    status = restored(running.admin, forged.body(disk.parent, overwrite="skip"))

    assert (disk / "beside").exists()
    assert not repository.exists()
    assert disk.stat().st_mode & 0o777 == 0o751
    assert (status["result"]["files_restored"], status["result"]["files_passed_over"]) == (1, 1)


def test_a_dry_run_counts_the_files_that_would_be_skipped(running: Running) -> None:
    forged = Forged(running)
    forged.put(data_folder(running) / "secret.key")
    forged.put("harmless")

    status = restored(running.admin, forged.body("/", dry_run=True))

    assert (status["status"], status["result"]["files_passed_over"]) == ("completed", 1)
    assert not Path("/harmless").exists()
