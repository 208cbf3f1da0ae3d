"""What happens to a backup when something is wrong, with the real engines: each problem has its own error key.

A failed backup shows its error key and a readable sentence, and its log has the engine's last output. A backup that
only lost some files is completed and lists them.
"""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from backup_engine.causes import SENTENCES
from tests.support.engines import ENGINES
from tests.support.gate import Gate
from tests.support.processes import processes_naming
from tests.support.running import PASSPHRASE, Running, Services, recording_engine
from tests.support.service import wait_until

SMALL_MEGABYTES = 16
WITHOUT_ROOTS_PRIVILEGE = "setpriv --bounding-set=-dac_override,-dac_read_search"


class World:
    """A service whose only engine has a normal user's file access, and a repository that another program locks."""

    def __init__(self, running: Running, program: Path) -> None:
        self.running = running
        self.program = program
        self.repository = running.new_repository(compression="lzma,9")
        self.locked = running.new_repository()
        self._holder = running.outside.holding_lock(self.locked["path"])
        self._holder.__enter__()
        self.waiting = running.admin.start_backup(self.locked)

    def close(self) -> None:
        self._holder.__exit__(None, None, None)

    def archives(self) -> set[str]:
        return set(self.running.outside.archives(self.repository["path"]))

    def end(self, repository: dict[str, Any], **more: Any) -> dict[str, Any]:
        return self.running.admin.wait_for_end(self.running.admin.start_backup(repository, **more))

    def failed(self, operation: dict[str, Any], key: str, *said: str, names: Sequence[str] = ()) -> None:
        """The operation failed with this key; its last log line is Holdfast's sentence, after the engine's own output.

        If names are given, the sentence starts like the one in the table and then names them.
        """
        lines = self.running.admin.log_lines(operation["id"])
        assert (operation["status"], operation["error_key"]) == ("failed", key), lines[-5:]
        if names:
            assert operation["error_message"].startswith(SENTENCES[key].split(";")[0] + ": ")
            assert all(name in operation["error_message"] for name in names)
        else:
            assert operation["error_message"] == SENTENCES[key]
        assert operation["archive_name"] is None
        assert operation["error_message"] in lines[-1]
        for words in said:
            assert any(words in line for line in lines[:-1]), lines

    def warned(self, operation: dict[str, Any]) -> dict[str, str]:
        """The warnings of a backup that still completed, by file name."""
        assert (operation["status"], operation["error_key"]) == ("completed_with_warnings", None), operation
        assert operation["archive_name"]
        log = "\n".join(self.running.admin.log_lines(operation["id"]))
        for warning in operation["warnings"]:
            assert set(warning) == {"path", "message"}
            assert warning["path"] in log
        status = self.running.admin.get(f"/api/backup/status/{operation['id']}").json()
        assert status["warnings"] == operation["warnings"]
        return {warning["path"]: warning["message"] for warning in operation["warnings"]}


@pytest.fixture(scope="module", params=sorted(ENGINES))
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("failures")
    services = Services(folder)
    program = recording_engine(folder, ENGINES[request.param], is_loaded=False)
    if os.geteuid() == 0:
        program.write_text(program.read_text().replace("exec ", f"exec {WITHOUT_ROOTS_PRIVILEGE} "))
    try:
        world = World(services.new(engine=request.param, HOLDFAST_BORG1=str(program)), program)
        yield world
        world.close()
    finally:
        services.stop()


def test_missing_sources_are_listed_and_the_others_backed_up(world: World) -> None:
    missing = str(world.running.new_path("missing"))

    operation = world.end(world.repository, source_paths=[missing, *world.repository["source_paths"]])

    assert list(world.warned(operation)) == [missing]
    assert operation["result"]["stats"]["nfiles"] == 3


def test_a_backup_without_any_existing_source_creates_no_archive(world: World) -> None:
    before = world.archives()
    missing = [str(world.running.new_path("missing")) for _ in range(2)]

    operation = world.end(world.repository, source_paths=missing)

    world.failed(operation, "engine.source_missing", names=missing)
    assert world.archives() == before


def test_files_that_vanish_or_cannot_be_read_are_listed(world: World) -> None:
    source = world.running.new_source()
    gate = Gate(source / "gate")
    vanishing, closed, shut = read_after(gate.path), source / "with closed name", source / "shut"
    closed.write_text("nobody may read this")
    closed.chmod(0)
    shut.mkdir()
    (shut / "inside").write_text("never seen")
    shut.chmod(0)

    job_id = world.running.admin.start_backup(world.repository, source_paths=[str(source)])
    gate.wait_until_reached()
    vanishing.unlink()
    gate.open()
    operation = world.running.admin.wait_for_end(job_id)

    warnings = world.warned(operation)
    assert set(warnings) == {str(vanishing), str(closed), str(shut)}
    assert "No such file" in warnings[str(vanishing)]
    assert "Permission denied" in warnings[str(closed)]
    inside = world.running.outside.files(world.repository["path"], operation["archive_name"])
    assert f"{source}/file-0".lstrip("/") in inside


def test_a_file_that_changes_while_it_is_read_is_listed(world: World) -> None:
    source = world.running.new_folder("changing")
    changing = source / "changing"
    changing.write_bytes(os.urandom(6_000_000))

    job_id = world.running.admin.start_backup(world.repository, source_paths=[str(source)])
    with stopped_while_reading(changing), changing.open("ab") as file:
        file.write(b"more")
    operation = world.running.admin.wait_for_end(job_id)

    warnings = world.warned(operation)
    assert list(warnings) == [str(changing)]
    assert "changed" in warnings[str(changing)]


def test_a_passphrase_changed_by_another_program_is_reported_as_wrong(world: World) -> None:
    repository = world.running.new_repository(encryption="repokey-blake2")
    world.running.outside.change_passphrase(repository["path"], PASSPHRASE, "another passphrase")

    world.failed(world.end(repository), "engine.passphrase_wrong", "assphrase supplied in")

    assert world.running.outside.archives(repository["path"], "another passphrase") == {}


def test_a_repository_with_damaged_data_is_reported_as_damaged(world: World) -> None:
    repository = world.running.new_repository()
    assert world.end(repository)["status"] == "completed"
    damage(Path(repository["path"]))

    world.failed(world.end(repository), "engine.damaged", "ntegrity")


def test_a_full_disk_is_reported_as_such(world: World) -> None:
    with small_disk(world.running.new_folder("small")) as disk:
        source = world.running.new_folder("large")
        (source / "large").write_bytes(os.urandom((SMALL_MEGABYTES + 4) * 1_000_000))
        repository = world.running.new_repository(path=disk / "repository", source_paths=[source])

        world.failed(world.end(repository), "engine.disk_full", "No space left on device")


def test_a_repository_locked_by_another_program_is_reported_as_locked(world: World) -> None:
    """The backup is started by the fixture and retried during the other tests, so that no test has to wait for it."""
    operation = world.running.admin.wait_for_end(world.waiting)

    world.failed(operation, "engine.locked", "Failed to create/acquire the lock", names=["another-machine", "process"])
    assert operation["attempt"] == 3


def test_a_missing_engine_is_reported_as_not_installed(world: World) -> None:
    """The last test of this file: no other test may need the engine at the same time."""
    away = world.program.with_name("away")
    world.program.rename(away)
    try:
        operation = world.end(world.repository)
    finally:
        away.rename(world.program)

    assert (operation["status"], operation["error_key"]) == ("failed", "engine.not_installed")
    assert "install BorgBackup" in operation["error_message"]
    assert operation["error_message"] in world.running.admin.log_lines(operation["id"])[-1]
    assert world.end(world.repository)["status"] == "completed"


def read_after(gate: Path) -> Path:
    """A file beside the gate that the engine reads later: it reads a folder in the order of inode numbers."""
    others = [gate.with_name(f"vanishing-{number}") for number in range(200)]
    for file in others:
        file.write_text("soon gone")
        if file.stat().st_ino > gate.stat().st_ino:
            return file
    raise AssertionError("no file has a higher number than the gate")


@contextmanager
def stopped_while_reading(file: Path) -> Iterator[None]:
    """Wait until an engine reads the file and stop it; let it continue at the end of the block."""
    engine = wait_until(lambda: next(iter(readers_of(file)), None), pause=0.005, what="the engine reads it")
    os.kill(engine, signal.SIGSTOP)
    try:
        assert engine in readers_of(file), "it is still at it"
        yield
    finally:
        os.kill(engine, signal.SIGCONT)


def readers_of(file: Path) -> list[int]:
    found = []
    for pid in processes_naming(str(file.parent)):
        try:
            if any(link.readlink() == file for link in Path(f"/proc/{pid}/fd").iterdir()):
                found.append(pid)
        except OSError:
            continue
    return found


def damage(repository: Path) -> None:
    """Flip bytes in the middle of every segment larger than 100 bytes."""
    for segment in (repository / "data" / "0").iterdir():
        content = bytearray(segment.read_bytes())
        if len(content) > 100:
            middle = len(content) // 2
            content[middle : middle + 16] = bytes(byte ^ 0xFF for byte in content[middle : middle + 16])
            segment.write_bytes(content)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SMALL_MEGABYTES}m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"this machine does not let root mount: {mounted.stderr.decode(errors='replace').strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)
