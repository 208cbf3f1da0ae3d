"""Services that are stopped during a backup, with a journal that ensures that they are started again.

The journal is a folder with one file per stopped service. The file is synced before anything is stopped; it records
whether the service was running and which backups need it stopped. It is removed only after the service was started. Any
process that finds a file no running backup needs starts the service: the backup itself, or `look_after`, which every
host calls at start-up and every few seconds. So whatever is killed at any time, the next round starts the service.

The journal consists of files, not rows in the service's store: an agent has no store, and restarting a service must not
wait for a database, which may be the very service that was stopped.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from backup_engine.file_lock import locked_if_free
from backup_engine.frozen import frozen
from backup_engine.process import Spool, SpoolState
from backup_engine.shim import process_start_time
from backup_jobs import services
from backup_jobs.engine_host import write_durably
from backup_jobs.host import Host, Stopping
from backup_jobs.services import Control, NotStopped

LOOK_SECONDS = 0.2
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 300.0


@frozen
class User:
    """A backup that needs a service stopped: one attempt, identified by its folder."""

    folder: str
    step: str
    """Name of the engine run in the folder."""
    far: bool = False
    """The engine runs on another machine. The local process only follows it, and may be killed while the engine runs
    on.
    """
    holder: str = ""
    """The process that stopped the service."""

    def needs_it(self) -> bool:
        """Whether this backup's engine is running, or its process is alive and about to start it."""
        spool = Spool(Path(self.folder) / self.step)
        if not Path(self.folder).is_dir():
            return False
        return (not spool.has_started() and _lives(self.holder)) or self.engine_runs()

    def engine_runs(self) -> bool:
        """Whether the engine is running. If not, this also ensures that it will never start."""
        spool = Spool(Path(self.folder) / self.step)
        if spool.settle() is SpoolState.ALIVE:
            return True
        return self.far and spool.has_started() and not _has_ended(spool)


@frozen
class StoppedService:
    """The journal's record of one service."""

    place: str
    name: str
    was_running: bool | None = None
    """None: not yet determined, so nothing was stopped."""
    users: tuple[User, ...] = ()
    tries: int = 0
    next_try_at: float = 0.0
    failing_since: float | None = None
    error: str | None = None

    @staticmethod
    def read(record: dict[str, Any]) -> "StoppedService":
        return StoppedService(**{**record, "users": tuple(User(**user) for user in record["users"])})

    def is_due(self) -> bool:
        """Whether the next try is due. A clock that was set back must not delay it for long."""
        return not 0 < self.next_try_at - time.time() <= LONGEST_PAUSE_SECONDS


class ServiceJournal:
    """A host's journal. `control_of` returns the control for a place; it may raise any exception."""

    def __init__(self, folder: Path, control_of: Callable[[str], Control]) -> None:
        self._folder = folder
        self._control_of = control_of

    def any(self) -> bool:
        return any(self._folder.glob("*.json"))

    def stop(self, place: str, name: str, user: User, wait: Callable[[float], None]) -> None:
        """Stop a service for a user. Raise NotStopped; even then, the user must call `leave`."""
        with self._locked(place, name, wait):
            known = self._read(self._file(place, name)) or StoppedService(place, name)
            others = tuple(other for other in known.users if other.folder != user.folder and other.needs_it())
            stopped = replace(known, users=(*others, user))
            self._write(stopped)
            control = self._control(place)
            if not stopped.was_running:
                stopped = replace(stopped, was_running=services.is_running(control, name))
                self._write(stopped)
            if stopped.was_running:
                services.stop(control, name)

    def leave(self, place: str, name: str, folder: str, wait: Callable[[float], None]) -> str | None:
        """Restart a service unless another backup needs it stopped. Return why that failed, or None.

        A user whose engine is still running stays registered: its process is about to end, but its backup continues.
        """
        if not self._file(place, name).exists():
            return None
        with self._locked(place, name, wait):
            stopped = self._read(self._file(place, name))
            if stopped is None or any(user.folder == folder and user.engine_runs() for user in stopped.users):
                return None
            users = tuple(user for user in stopped.users if user.folder != folder and user.needs_it())
            return self._start_unless_needed(replace(stopped, users=users))

    def look_after(self) -> list[StoppedService]:
        """Start every service that no backup needs stopped any more. Return those that cannot be started.

        Those with the fewest failures come first: an unresponsive machine must not delay the others.
        """
        found = [stopped for file in self._folder.glob("*.json") if (stopped := self._read(file)) is not None]
        for stopped in sorted(found, key=lambda stopped: stopped.tries):
            with self._locked_if_free(stopped.place, stopped.name) as is_free:
                now = self._read(self._file(stopped.place, stopped.name)) if is_free else None
                if now is not None and now.is_due():
                    needed = tuple(user for user in now.users if user.needs_it())
                    self._start_unless_needed(replace(now, users=needed), was=now)
        remaining = (self._read(file) for file in self._folder.glob("*.json"))
        return [stopped for stopped in remaining if stopped is not None and stopped.failing_since is not None]

    def _start_unless_needed(self, stopped: StoppedService, was: StoppedService | None = None) -> str | None:
        if stopped.users:
            if stopped != was:
                self._write(stopped)
            return None
        error = self._start(stopped) if stopped.was_running else None
        if error is None:
            self._file(stopped.place, stopped.name).unlink(missing_ok=True)
            return None
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(stopped.tries, 10))
        self._write(
            replace(
                stopped,
                tries=stopped.tries + 1,
                next_try_at=time.time() + pause,
                failing_since=stopped.failing_since or time.time(),
                error=error,
            )
        )
        return error

    def _start(self, stopped: StoppedService) -> str | None:
        try:
            return services.start(self._control(stopped.place), stopped.name)
        except NotStopped as error:
            return error.message

    def _control(self, place: str) -> Control:
        try:
            return self._control_of(place)
        except Exception as error:  # the journal must survive any error in reaching a machine
            raise NotStopped(services.NOT_STOPPED, f"The machine cannot be used: {error}") from error

    # --- files ------------------------------------------------------------------------------------------------------

    def _file(self, place: str, name: str) -> Path:
        return self._folder / f"{hashlib.sha256(f'{place} {name}'.encode()).hexdigest()[:32]}.json"

    def _read(self, file: Path) -> StoppedService | None:
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            return StoppedService.read(json.loads(file.read_bytes()))
        return None

    def _write(self, stopped: StoppedService) -> None:
        write_durably(self._file(stopped.place, stopped.name), asdict(stopped))

    @contextlib.contextmanager
    def _locked(self, place: str, name: str, wait: Callable[[float], None]) -> Iterator[None]:
        while True:
            with self._locked_if_free(place, name) as is_free:
                if is_free:
                    yield
                    return
            wait(LOOK_SECONDS)

    @contextlib.contextmanager
    def _locked_if_free(self, place: str, name: str) -> Iterator[bool]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked_if_free(self._file(place, name).with_suffix(".lock")) as is_free:
            yield is_free


# --- one attempt ------------------------------------------------------------------------------------------------------


@frozen
class ServicesToStop:
    """Services that one backup attempt stops, in this order; they are restarted in reverse order."""

    host: Host | None = None
    journal: ServiceJournal | None = None
    place: str = ""
    names: tuple[str, ...] = ()
    folder: str = ""
    step: str = ""
    far: bool = False
    refusal: str | None = None
    """Why this machine refuses to stop them, if it does."""

    def stop(self) -> None:
        """Stop the services. Raise NotStopped, Cancelled or Stopping; `restart` then restarts those already stopped."""
        if not self.names:
            return
        if self.refusal is not None:
            raise NotStopped(services.REFUSED, self.refusal)
        assert self.journal is not None
        assert self.host is not None
        Path(self.folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        user = User(self.folder, self.step, self.far, this_process())
        for name in self.names:
            self.host.require_going_on()
            self.journal.stop(self.place, name, user, self.host.pause)

    def restart(self) -> list[str]:
        """Restart what this attempt stopped. Return a message for each service that does not start."""
        if not self.names or self.refusal is not None:
            return []
        assert self.journal is not None
        failed = []
        for name in reversed(self.names):
            error = self.journal.leave(self.place, name, self.folder, self._wait)
            if error is not None:
                failed.append(f"{name} could not be restarted; retrying until it starts: {error}")
        return failed

    def _wait(self, seconds: float) -> None:
        """Wait without regard to a cancel, which must not keep a service down."""
        assert self.host is not None
        if self.host.is_stopping():
            raise Stopping
        time.sleep(seconds)


def unstarted(services: Sequence[StoppedService]) -> list[dict[str, Any]]:
    """Report of the services that cannot be started."""
    return [
        {
            "place": stopped.place,
            "name": stopped.name,
            "since": stopped.failing_since,
            "error": (stopped.error or "")[:300],
        }
        for stopped in services
    ]


def _has_ended(spool: Spool) -> bool:
    record = spool.exit_record()
    return record is not None and record.signal is None


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def this_process() -> str:
    return f"{_boot()} {os.getpid()} {process_start_time(os.getpid())}"


def _lives(holder: str) -> bool:
    boot, _, process = holder.rpartition(" ")[0].rpartition(" ")
    started = holder.rpartition(" ")[2]
    return process.isdigit() and boot == _boot() and str(process_start_time(int(process))) == started
