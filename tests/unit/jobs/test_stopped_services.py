"""The journal of stopped services: services are down while an engine runs and run again afterwards, whatever is killed
and whenever.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backup_engine.command import Command
from backup_engine.process import Spool
from backup_jobs import services, stopped_services
from backup_jobs.services import Answer, NotStopped
from backup_jobs.stopped_services import ServiceJournal, StoppedService, User

UNIT = "web.service"


class Killed(BaseException):
    """The process ends here."""


class Machine:
    """A machine with services. `pass_point` is called before each command and after each change."""

    def __init__(self, **running: bool) -> None:
        self.running = {f"{name}.service": is_running for name, is_running in running.items()}
        self.pass_point: Callable[[], None] = lambda: None
        self.fails = ""
        self.said: list[str] = []

    def control(self, argv: tuple[str, ...], seconds: float) -> Answer:
        del seconds
        verb, name = next(word for word in argv if word in ("show", "stop", "start")), argv[-1]
        self.said.append(f"{verb} {name}")
        self.pass_point()
        if verb == "show":
            known = "loaded" if name in self.running else "not-found"
            state = "active" if self.running.get(name) else "inactive"
            return Answer(0, f"LoadState={known}\nActiveState={state}\n")
        if self.fails == verb:
            return Answer(1, f"{verb} failed")
        self.running[name] = verb == "start"
        self.pass_point()
        return Answer(0, "")


@pytest.fixture
def machine() -> Machine:
    return Machine(web=True)


@pytest.fixture
def journal(tmp_path: Path, machine: Machine) -> ServiceJournal:
    return ServiceJournal(tmp_path / "holds", lambda _place: machine.control)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Spool]:
    """An engine that runs until it is stopped."""
    spool = Spool(tmp_path / "attempt" / "create")
    spool.launch(Command(argv=("/bin/sleep", "600"), environment={}))
    while not spool.has_started():
        time.sleep(0.01)
    yield spool
    end(spool)


def end(spool: Spool) -> None:
    while spool.is_alive():
        spool.signal_engine(9)  # type: ignore[arg-type]
        time.sleep(0.01)


def user(folder: Path, *, far: bool = False, dead: bool = False) -> User:
    folder.mkdir(parents=True, exist_ok=True)
    return User(str(folder), "create", far, dead_process() if dead else stopped_services.this_process())


def dead_process() -> str:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = stopped_services.process_start_time(child.pid)
    child.communicate(b"\n")
    return f"{stopped_services._boot()} {child.pid} {start}"


def no_wait(seconds: float) -> None:
    raise AssertionError(f"nobody else uses the journal, but it waits {seconds} seconds")


def test_a_service_runs_again_whenever_its_process_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killer, kills = dead_process(), 0
    write = stopped_services.write_durably
    while True:
        machine, folder = Machine(web=True), tmp_path / str(kills)
        left = [kills]

        def pass_point(left: list[int] = left) -> None:
            if left[0] == 0:
                raise Killed
            left[0] -= 1

        def kept(file: Path, value: object, pass_point: Callable[[], None] = pass_point) -> None:
            pass_point()
            write(file, value)  # type: ignore[arg-type]
            pass_point()

        machine.pass_point = pass_point
        monkeypatch.setattr(stopped_services, "write_durably", kept)
        journal = ServiceJournal(folder / "holds", lambda _place, machine=machine: machine.control)  # type: ignore[misc]
        try:
            journal.stop("local", UNIT, User(str(folder), "create", False, killer), no_wait)
            assert machine.running[UNIT] is False
            pass_point()
            journal.leave("local", UNIT, str(folder), no_wait)
            pass_point()
        except Killed:
            kills += 1
        else:
            break
        finally:
            machine.pass_point = lambda: None
            monkeypatch.setattr(stopped_services, "write_durably", write)
        ServiceJournal(folder / "holds", lambda _place, machine=machine: machine.control).look_after()  # type: ignore[misc]
        assert machine.running[UNIT] is True, f"killed at point {kills}"
        assert not journal.any()
    assert kills > 8


def test_a_service_stays_down_while_the_engine_of_a_killed_process_runs(
    tmp_path: Path, machine: Machine, journal: ServiceJournal, engine: Spool
) -> None:
    journal.stop("local", UNIT, user(tmp_path / "attempt", dead=True), no_wait)
    journal.look_after()
    assert machine.running[UNIT] is False
    assert journal.leave("local", UNIT, str(tmp_path / "attempt"), no_wait) is None  # a host that stops
    assert machine.running[UNIT] is False
    end(engine)
    journal.look_after()
    assert machine.running[UNIT] is True


def test_a_service_stays_down_until_the_last_backup_that_needs_it_ends(
    tmp_path: Path, machine: Machine, journal: ServiceJournal
) -> None:
    for name in ("a", "b"):
        journal.stop("local", UNIT, user(tmp_path / name), no_wait)
    journal.leave("local", UNIT, str(tmp_path / "a"), no_wait)
    assert machine.running[UNIT] is False
    journal.leave("local", UNIT, str(tmp_path / "b"), no_wait)
    assert machine.running[UNIT] is True


def test_a_service_that_did_not_run_is_not_started(tmp_path: Path, journal: ServiceJournal, machine: Machine) -> None:
    machine.running[UNIT] = False
    journal.stop("local", UNIT, user(tmp_path / "a"), no_wait)
    journal.leave("local", UNIT, str(tmp_path / "a"), no_wait)
    assert machine.running[UNIT] is False
    assert not journal.any()


def test_a_service_started_meanwhile_is_stopped_for_the_next_backup(
    tmp_path: Path, journal: ServiceJournal, machine: Machine
) -> None:
    machine.running[UNIT] = False
    journal.stop("local", UNIT, user(tmp_path / "a"), no_wait)
    machine.running[UNIT] = True
    journal.stop("local", UNIT, user(tmp_path / "b"), no_wait)
    assert machine.running[UNIT] is False
    for name in ("a", "b"):
        journal.leave("local", UNIT, str(tmp_path / name), no_wait)
    assert machine.running[UNIT] is True


def test_a_service_that_fails_to_start_is_retried_after_increasing_pauses(
    tmp_path: Path, machine: Machine, journal: ServiceJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr(stopped_services.time, "time", lambda: now[0])
    journal.stop("local", UNIT, user(tmp_path / "a"), no_wait)
    machine.fails = "start"
    assert journal.leave("local", UNIT, str(tmp_path / "a"), no_wait) == "start failed"
    pauses = []
    for _ in range(10):
        before, tries = now[0], len(machine.said)
        while len(machine.said) == tries:
            now[0] += 1
            failing = journal.look_after()
        pauses.append(now[0] - before)
        assert [(stopped.name, stopped.failing_since) for stopped in failing] == [(UNIT, 1_000_000.0)]
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300, 300, 300]
    now[0] -= 86_400  # the clock is set back
    machine.fails = ""
    assert journal.look_after() == []
    assert machine.running[UNIT] is True


def test_the_journal_of_an_unreachable_machine_is_kept(tmp_path: Path, machine: Machine) -> None:
    reached = [True]

    def control_of(place: str) -> services.Control:
        if not reached[0]:
            raise LookupError(f"no {place}")
        return machine.control

    journal = ServiceJournal(tmp_path / "holds", control_of)
    journal.stop("ssh:3", UNIT, user(tmp_path / "a", far=True), no_wait)
    reached[0] = False
    assert "no ssh:3" in str(journal.leave("ssh:3", UNIT, str(tmp_path / "a"), no_wait))
    assert [stopped.place for stopped in journal.look_after()] == ["ssh:3"]


def test_a_remote_engine_keeps_its_service_down_if_only_the_link_was_killed(
    tmp_path: Path, machine: Machine, journal: ServiceJournal, engine: Spool
) -> None:
    journal.stop("ssh:3", UNIT, user(tmp_path / "attempt", far=True, dead=True), no_wait)
    end(engine)  # by a signal: the local process that follows the engine is gone, the engine is not
    journal.look_after()
    assert machine.running[UNIT] is False
    for file in sorted((tmp_path / "attempt").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    (tmp_path / "attempt").rmdir()  # the operation has ended
    journal.look_after()
    assert machine.running[UNIT] is True


@pytest.mark.parametrize(
    ("fails", "unit", "key"), [("stop", UNIT, services.NOT_STOPPED), ("", "no.service", services.UNKNOWN)]
)
def test_a_service_that_cannot_be_stopped_fails_the_backup_and_is_started_again(
    tmp_path: Path, machine: Machine, journal: ServiceJournal, fails: str, unit: str, key: str
) -> None:
    machine.fails = fails
    with pytest.raises(NotStopped) as refused:
        journal.stop("local", unit, user(tmp_path / "a"), no_wait)
    assert refused.value.key == key
    journal.leave("local", unit, str(tmp_path / "a"), no_wait)
    assert machine.running[UNIT] is True
    assert not journal.any()


def test_only_one_process_at_a_time_stops_or_starts_a_service(
    tmp_path: Path, journal: ServiceJournal, machine: Machine
) -> None:
    with journal._locked_if_free("local", UNIT) as is_free:
        assert is_free
        with pytest.raises(AssertionError, match="it waits"):
            journal.stop("local", UNIT, user(tmp_path / "a"), no_wait)
        assert journal.look_after() == []
    assert machine.said == []


def test_only_valid_unit_names_are_accepted() -> None:
    good = ("web.service", "postgresql@16-main.service", "a.socket")
    bad = (
        "web",
        "--now.service",
        "-H.service",
        "a b.service",
        "a;b.service",
        "*.service",
        "",
        "x.mount",
        "../x.service",
    )
    assert [services.is_unit_name(name) for name in (*good, *bad)] == [True] * 3 + [False] * len(bad)


def test_a_record_survives_a_round_trip() -> None:
    stopped = StoppedService("local", UNIT, True, (User("/a", "create"),), 2, 5.0, 1.0, "no")
    assert StoppedService.read(stopped_services.asdict(stopped)) == stopped


def test_a_backup_never_stops_the_unit_that_it_runs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = tmp_path / "cgroup"
    groups.write_text("0::/system.slice/holdfast.service\n")
    monkeypatch.setattr(services, "CONTROL_GROUPS", str(groups))
    asked = tmp_path / "asked"
    program = tmp_path / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {asked}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    with pytest.raises(NotStopped, match="this program runs in it"):
        services.stop(services.control_here, "holdfast.service")
    assert not asked.exists()

    services.stop(services.control_here, "fast.service")
    assert asked.read_text().endswith("fast.service\n")
