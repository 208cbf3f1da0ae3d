"""Agent jobs as a way to reach the agent's own folders, repositories on its machine, and a service on that machine."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from backup_agent.protected_places import exclusions_of, sources_outside
from backup_jobs.endings import Completed, Failed
from backup_protocol import BackupBlock
from tests.support.agent_job import run_restore
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.warm_engines import warm_program

FORGED = "forged"


def program_of(major: int) -> Path:
    program = ENGINES[max(ENGINES)] if major == 1 else ENGINE_2
    if program is None:
        pytest.skip("there is no engine 2")
    return warm_program(program)


def archive_of(folder: Path, major: int, *names: str) -> Path:
    """A repository with an archive of forged files with these names."""
    for name in names:
        file = folder / "source" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(FORGED)
    repository, tops = folder / "made", sorted({name.partition("/")[0] for name in names})
    environment = {
        "BORG_BASE_DIR": str(folder / "base"),
        "PATH": "/usr/bin:/bin",
        "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
    }
    steps = {
        1: [["init", "-e", "none", str(repository)], ["create", f"{repository}::archive", *tops]],
        2: [
            ["-r", str(repository), "repo-create", "-e", "none-sha256"],
            ["-r", str(repository), "create", "archive", *tops],
        ],
    }[major]
    for arguments in steps:
        command = [str(program_of(major)), *arguments]
        subprocess.run(command, cwd=folder / "source", env=environment, check=True, capture_output=True)
    return repository


class Machine:
    """The machine of an agent, below a folder of the tests."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "machine"
        self.config, self.repository, self.service = (self.root / name for name in ("agent", "repository", "service"))
        for place in (self.config, self.repository, self.service):
            place.mkdir(parents=True)
            (place / "config").write_text("kept")

    def restored(self, folder: Path, repository: Path, major: int, **more: Any) -> Any:
        found = self.service.stat()
        return run_restore(
            folder,
            repository,
            "archive",
            self.root,
            program=program_of(major),
            major=major,
            machine={"own_folders": (str(self.config),)},
            repositories=[str(self.repository)],
            service_places=[{"path": str(self.service), "device": found.st_dev, "inode": found.st_ino}],
            **more,
        )

    def forged(self) -> list[str]:
        return [str(path) for path in self.root.rglob("*") if path.is_file() and path.read_text() == FORGED]


@pytest.mark.parametrize("major", [1, 2])
def test_a_wide_restore_skips_the_folders_an_agent_must_not_touch(tmp_path: Path, major: int) -> None:
    machine = Machine(tmp_path)
    names = ("agent/config", "agent/new", "repository/config", "service/config", "harmless")
    repository = archive_of(tmp_path, major, *names)

    ended = machine.restored(tmp_path, repository, major)

    assert isinstance(ended, Completed), ended
    assert ended.warned
    assert machine.forged() == [str(machine.root / "harmless")]
    assert (ended.details["files_restored"], ended.details["files_passed_over"]) == (1, 4)
    assert any("4 files were skipped because" in warning["message"] for warning in ended.warnings)


@pytest.mark.parametrize("chosen", ["agent/config", "repository", "service/config"])
def test_a_restore_of_paths_an_agent_must_not_touch_is_refused(tmp_path: Path, chosen: str) -> None:
    machine = Machine(tmp_path)
    repository = archive_of(tmp_path, 1, "agent/config", "repository/config", "service/config", "harmless")

    ended = machine.restored(tmp_path, repository, 1, paths=[chosen, "harmless"])

    assert isinstance(ended, Failed)
    assert ended.error_key == "restore.destination_forbidden"
    assert machine.forged() == []


def test_a_restore_into_a_repository_of_the_agents_machine_is_refused(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    repository = archive_of(tmp_path, 1, "config")
    machine.root = machine.repository / "below"

    ended = machine.restored(tmp_path, repository, 1)

    assert isinstance(ended, Failed)
    assert ended.error_key == "restore.destination_forbidden"
    assert not machine.root.exists()


def test_a_service_on_another_machine_does_not_protect_the_same_path_here(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    repository = archive_of(tmp_path, 1, "service/config")
    os.rename(machine.service, tmp_path / "away")
    elsewhere = (tmp_path / "away").stat()
    machine.service.mkdir()

    ended = run_restore(
        tmp_path,
        repository,
        "archive",
        machine.root,
        program=program_of(1),
        service_places=[{"path": str(machine.service), "device": elsewhere.st_dev, "inode": elsewhere.st_ino}],
    )

    assert isinstance(ended, Completed), ended
    assert machine.forged() == [str(machine.service / "config")]


def test_a_link_does_not_lead_out_of_the_sources_on_an_agent(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "out").symlink_to("/etc")
    within = (str(source),)

    assert sources_outside(BackupBlock(source_paths=(f"{source}/out/passwd",), within=within)) == [
        f"{source}/out/passwd"
    ]
    assert sources_outside(BackupBlock(source_paths=(f"{source}/out", str(source)), within=within)) == []
    assert sources_outside(BackupBlock(source_paths=("/etc/passwd",))) == []


def test_a_backup_excludes_the_folders_of_the_agent_and_the_service(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    found = machine.service.stat()
    there = {"path": str(machine.service), "device": found.st_dev, "inode": found.st_ino}
    elsewhere = {"path": str(machine.repository), "device": found.st_dev, "inode": 1}
    block = BackupBlock(source_paths=(str(machine.root),), service_places=(there, elsewhere, {"path": 1}))

    patterns = exclusions_of([str(machine.config)], block)

    assert patterns == (f"pp:{machine.config}", f"pp:{machine.service}")
