"""Whatever is killed in the middle of a dump: no archive ever contains half of one."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backup_engine.process import Spool, spools_below
from tests.real.dumps.world import PausedProgram, add_database, extracted, new_sqlite, rows_of, start_dump
from tests.support.processes import children_of, command_line
from tests.support.running import Running, Services
from tests.support.service import wait_until

FEEDER = "feed.py"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> PausedProgram:
    program = PausedProgram(tmp_path_factory.mktemp("programs") / "bin")
    program.install()
    return program


@pytest.fixture(scope="module")
def running(services: Services, program: PausedProgram) -> Iterator[Running]:
    with services.own(HOLDFAST_DATABASE_PROGRAMS=str(program.folder)) as running:
        yield running


def feeder_of(running: Running) -> int:
    """The feeder of the only running dump."""
    spools = [spool for spool in spools_below(running.process.data_dir) if spool.is_alive()]
    [found] = [pid for spool in spools if (pid := _engine(spool)) and FEEDER in command_line(pid)]
    return found


def _engine(spool: Spool) -> int | None:
    try:
        pid: int = json.loads((spool.folder / "engine.json").read_bytes())["pid"]
    except (FileNotFoundError, ValueError):
        return None
    return pid


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def kill_dump(running: Running, program: PausedProgram) -> None:
    del running
    assert program.pid is not None
    kill(program.pid)


def kill_feeder(running: Running, program: PausedProgram) -> None:
    del program
    kill(feeder_of(running))


def kill_engine(running: Running, program: PausedProgram) -> None:
    del program
    [engine] = [pid for pid in children_of(feeder_of(running)) if "create" in command_line(pid).split()]
    kill(engine)


def kill_shim(running: Running, program: PausedProgram) -> None:
    del program
    kill(parent_of(feeder_of(running)))


def kill_service(running: Running, program: PausedProgram) -> None:
    del program
    running.process.kill()


@pytest.mark.parametrize(
    ("strike", "statuses"),
    [
        (kill_dump, {"failed"}),
        (kill_feeder, {"completed"}),
        (kill_engine, {"completed"}),
        (kill_shim, {"completed"}),
        (kill_service, {"completed"}),
    ],
)
def test_whatever_is_killed_no_archive_contains_half_a_dump(
    running: Running, program: PausedProgram, strike: Callable[[Running, PausedProgram], None], statuses: set[str]
) -> None:
    file = new_sqlite(running.new_folder("database"))
    repository = running.new_repository()
    add_database(running, repository, name="app", kind="sqlite", database=str(file))
    program.hold()
    operation = start_dump(running, repository)
    try:
        wait_until(lambda: program.pid is not None, what="the dump is in its middle")
        strike(running, program)
    finally:
        program.release()
    if strike is kill_service:
        running.process.launch()
        running.process.wait_until_ready()

    ended: dict[str, Any] = running.admin.wait_for_end(operation)

    assert ended["status"] in statuses, (ended["error_message"], running.admin.log_lines(operation))
    if ended["status"] == "failed":
        assert ended["error_key"] == "backup.dump_failed"
    found = extracted(running, repository)
    assert len(found) == (1 if ended["status"] == "completed" else 0)
    for folder in found.values():
        restored = folder / "restored.db"
        with (folder / "app.sql").open("rb") as dump:
            subprocess.run(["sqlite3", restored], stdin=dump, check=True)
        assert rows_of(restored) == rows_of(file)


def test_a_cancelled_dump_leaves_no_archive(running: Running, program: PausedProgram) -> None:
    repository = running.new_repository()
    file = new_sqlite(running.new_folder("database"))
    add_database(running, repository, name="app", kind="sqlite", database=str(file))
    program.hold()
    operation = start_dump(running, repository)
    try:
        wait_until(lambda: program.pid is not None, what="the dump is in its middle")
        assert running.admin.post(f"/api/operations/{operation}/cancel").status_code == 200
        ended = running.admin.wait_for_end(operation)
    finally:
        program.release()
    assert ended["status"] == "cancelled"
    assert extracted(running, repository) == {}
