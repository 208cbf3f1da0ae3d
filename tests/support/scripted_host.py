"""A host whose engine outputs what a test wants: bodies of jobs run in it without any process."""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from backup_engine.command import Command
from backup_engine.detect import EngineProgram
from backup_engine.environment import EngineEnvironment
from backup_engine.events import Event
from backup_engine.interface import Engine, engine_for
from backup_engine.outcome import Accumulator
from backup_engine.process import ExitRecord
from backup_engine.requests import RepositoryLocation
from backup_engine.stream_reader import engine_outcome
from backup_jobs.host import Cancelled, Host, Interrupted, ScriptEnd, Step
from backup_jobs.sources import Exclusions, Sources
from backup_jobs.work import Work
from backup_protocol import Block

INTERRUPTED = object()
"""In a script: how the engine ended is unknown."""


class ScriptedHost(Host):
    """`script` maps the name of a step to what the engine prints, INTERRUPTED, or a non-zero exit code."""

    def __init__(
        self, script: Mapping[str, Any], *, attempt: int = 1, earlier: Mapping[str, Any] | None = None
    ) -> None:
        self._script = script
        self._attempt = attempt
        self._earlier = earlier or {}
        self._kept: dict[str, Mapping[str, Any]] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="scripted-"))
        self.cancelled = False
        self.steps: list[str] = []
        self.lines: list[str] = []

    @property
    def attempt(self) -> int:
        return self._attempt

    @property
    def earlier(self) -> Mapping[str, Any]:
        return self._earlier

    def step(
        self,
        name: str,
        command: Command,
        *,
        on_event: Callable[[Event], None] | None = None,
        despite_cancel: bool = False,
        quiet: bool = False,
    ) -> Step:
        del command, on_event, quiet
        if self.cancelled and not despite_cancel:
            raise Cancelled
        self.steps.append(name)
        said = self._script.get(name, self._script.get(name.rpartition("-")[0]))
        if said is INTERRUPTED:
            raise Interrupted(name, Accumulator())
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        (folder / "out").write_text(json.dumps(said))
        code = said if isinstance(said, int) else 0
        record, accumulator = ExitRecord(code, None, None, 0.0, 0.0), Accumulator()
        outcome = engine_outcome(record, accumulator, cancel_requested=self.cancelled)
        return Step(record, outcome, accumulator, folder / "out", folder / "err")

    def script_step(self, name: str, command: Command) -> ScriptEnd:
        del command
        if self.cancelled:
            raise Cancelled
        self.steps.append(name)
        said = self._script.get(name, 0)
        if said is INTERRUPTED:
            raise Interrupted(name, Accumulator())
        return ScriptEnd(ExitRecord(said, None, None, 0.0, 0.0), self.cancelled)

    def has_begun(self, name: str) -> bool:
        return name in self.steps

    def once(self, name: str, make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        return self._kept.setdefault(name, make())

    def kept(self, name: str) -> Mapping[str, Any] | None:
        return self._kept.get(name)

    def pause(self, seconds: float) -> None:
        del seconds
        self.require_going_on()

    def log(self, *lines: str) -> None:
        self.lines += lines

    def report(self, **progress: Any) -> None:
        del progress

    def is_cancelled(self) -> bool:
        return self.cancelled

    def is_stopping(self) -> bool:
        return False


class NoSources(Sources):
    """Backup sources about which nothing is known."""

    @property
    def expected_size(self) -> int | None:
        return None

    def exclusions(self) -> Exclusions:
        return Exclusions()

    def outside(self) -> list[str]:
        return []

    def missing(self, sources: Sequence[str]) -> tuple[str, ...]:
        del sources
        return ()


def an_engine() -> Engine:
    return engine_for(EngineProgram("/usr/bin/borg", "1.4.0", (1, 4, 0), 1), EngineEnvironment("/nonexistent", "test"))


def work_on(host: Host, block: Block) -> Work[Any]:
    return Work(host, an_engine(), RepositoryLocation("/srv/repository"), block)


def listing(*archives: str) -> dict[str, Any]:
    """What the engine prints for a list of these archives; each id is derived from the name."""
    return {"archives": [_archive(name) for name in archives], "repository": {"id": "0" * 64, "location": "/srv"}}


def id_of(archive: str) -> str:
    return (archive.encode().hex() * 64)[:64]


def _archive(name: str) -> dict[str, Any]:
    time = "2026-11-16T10:00:00.000000"
    return {
        "archive": name,
        "barchive": name,
        "id": id_of(name),
        "name": name,
        "start": time,
        "end": time,
        "time": time,
    }
