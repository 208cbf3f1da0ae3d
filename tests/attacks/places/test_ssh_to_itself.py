"""An ssh connection to the service's own machine, as another way to reach the service's own data."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.places.own import archived, backed_up, data_folder, own_files
from tests.support.engines import ENGINES
from tests.support.running import PASSPHRASE, Running, Services
from tests.support.sshd import Sshd, sshd
from tests.support.warm_engines import warm_program


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as machine:
        yield machine


@pytest.fixture(scope="module")
def running(services: Services) -> Running:
    return services.new()


@pytest.fixture(scope="module")
def repository(running: Running, machine: Sshd) -> dict[str, Any]:
    """A repository whose source is the parent of the data folder; its engine runs by ssh on this machine."""
    above = data_folder(running).parent
    return running.admin.create_repository(
        running.new_path("far"),
        [above],
        passphrase=PASSPHRASE,
        execution_target="ssh",
        ssh_connection_id=machine.connection(running.admin, "itself", engine_path=str(warm_program(ENGINES["1.4"]))),
        exclude_patterns=[f"{above}/far*", f"{above}/repository-*"],
    )


def set_python(running: Running, program: str | None) -> None:
    with closing(sqlite3.connect(Path(data_folder(running)) / "holdfast.db", timeout=60)) as store, store:
        store.execute("UPDATE ssh_connections SET python_program = ?", (program,))


def test_a_backup_by_ssh_of_the_services_own_machine_excludes_the_data_folder(
    running: Running, repository: dict[str, Any]
) -> None:
    ended = backed_up(running.admin, repository)

    paths = archived(running, repository, ended)
    assert ended["status"].startswith("completed"), ended
    assert paths
    assert own_files(paths) == []


def test_a_backup_by_ssh_excludes_the_files_the_service_keeps_on_the_machine(
    running: Running, repository: dict[str, Any], machine: Sshd
) -> None:
    """The keys and records of engines, and the output of other runs, whose repositories the caller may not see."""
    backed_up(running.admin, repository)
    kept = [machine.home / ".local/share/holdfast/engine", machine.home / ".cache/holdfast-shim/runs"]
    for folder in kept:
        assert folder.is_dir()
        (folder / "of-another-repository").write_text("its key, or its list of files")
    (machine.home / "own-file").write_text("the user's own")

    ended = backed_up(running.admin, repository, source_paths=[str(machine.home)])

    paths = archived(running, repository, ended)
    assert any(path.endswith("/own-file") for path in paths)
    assert not [path for path in paths if "of-another-repository" in path or "holdfast-shim" in path]


def test_a_link_does_not_lead_out_of_the_sources_on_an_ssh_machine(
    running: Running, repository: dict[str, Any]
) -> None:
    source = running.new_source()
    (source / "out").symlink_to("/etc")
    operator = running.client_with_right(repository, "operator")

    ended = backed_up(operator, repository, source_paths=[f"{source}/out/passwd"])

    assert (ended["status"], ended["error_key"]) == ("failed", "backup.sources_not_allowed"), ended


@pytest.mark.parametrize("program", [None, "/bin/false", "/bin/echo"])
def test_without_working_python_on_the_machine_nothing_is_backed_up(
    running: Running, repository: dict[str, Any], program: str | None
) -> None:
    set_python(running, program)

    ended = backed_up(running.admin, repository)

    assert (ended["status"], ended["error_key"]) == ("failed", "backup.own_places_unknown"), ended
    assert "python3" in ended["error_message"]
