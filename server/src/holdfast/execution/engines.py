"""Engine programs on this machine."""

import shutil
import threading
import time
import uuid
from pathlib import Path

from backup_engine.created_once import create_once
from backup_engine.detect import EngineNotInstalled, EngineProgram, EngineUnsupported, detect
from backup_engine.environment import EngineEnvironment
from backup_engine.frozen import frozen
from backup_engine.interface import Engine, engine_for
from holdfast.api.parts import Part
from holdfast.errors import Unprocessable
from holdfast.settings import Settings

REFUSED_SECONDS = 60.0
"""How long to wait before running a rejected program again, unless it has been replaced."""
FAR_BASE = "~/.local/share/holdfast/engine"
"""Folder for the cache, keys and security records of an engine on another machine."""
FAR_FOLDERS = ("~/.local/share/holdfast", "~/.cache/holdfast-shim")
"""The service's folders on another machine: the engine's keys and records, and the spools of its runs."""


@frozen
class _Identity:
    """Facts that must not change for a detection to stay valid."""

    path: str
    inode: int
    modified: int


class Engines:
    """Find the program of each major. A program is detected once, and again after it was replaced."""

    def __init__(self, settings: Settings) -> None:
        self._configured = {1: settings.borg1, 2: settings.borg2}
        self._lock_wait = settings.engine_lock_wait_seconds
        self._environment = EngineEnvironment(str(settings.engine_dir.absolute()), install_id(settings.data_dir))
        self._known: dict[_Identity, EngineProgram] = {}
        self._refused: dict[_Identity, tuple[float, Unprocessable]] = {}
        """When it was rejected, and why."""
        self._lock = threading.Lock()
        settings.engine_dir.mkdir(parents=True, exist_ok=True, mode=0o700)

    def program(self, major: int) -> EngineProgram:
        """Given a major, return its program. Raise Unprocessable if it is not installed or not supported."""
        configured = self._configured.get(major, "")
        found = shutil.which(configured)
        if found is None:
            raise Unprocessable(
                "engine.not_installed",
                f"The program of engine {major} ({configured}) is not installed; install BorgBackup or set "
                f"HOLDFAST_BORG{major}.",
                engine=major,
            )
        stat = Path(found).stat()
        identity = _Identity(found, stat.st_ino, stat.st_mtime_ns)
        program = self._known.get(identity) or self._detected(identity)
        if program.major != major:
            raise Unprocessable(
                "engine.unsupported", f"{found} is BorgBackup {program.version}, not of major {major}.", engine=major
            )
        return program

    def _detected(self, identity: _Identity) -> EngineProgram:
        with self._lock:
            if identity in self._known:
                return self._known[identity]
            refused_at, refusal = self._refused.get(identity, (float("-inf"), None))
            if refusal is not None and time.monotonic() - refused_at < REFUSED_SECONDS:
                raise refusal
            try:
                program = self._known[identity] = _detect(identity.path, self._environment.base_directory)
            except Unprocessable as error:
                self._refused[identity] = time.monotonic(), error
                raise
            return program

    def engine(self, major: int) -> Engine:
        program = self.program(major)
        try:
            return engine_for(program, self._environment, self._lock_wait)
        except EngineUnsupported as error:
            raise Unprocessable(error.key, str(error), engine=major) from error

    def far_engine(self, program: EngineProgram, machine: str) -> Engine:
        """The engine of another machine. Its locks carry that machine's name: its processes are not visible here."""
        environment = EngineEnvironment(FAR_BASE, f"{self._environment.host_id}-{machine}")
        try:
            return engine_for(program, environment, self._lock_wait)
        except EngineUnsupported as error:
            raise Unprocessable(error.key, str(error), engine=program.major) from error

    def found(self) -> list[EngineProgram]:
        programs = []
        for major in self._configured:
            try:
                programs.append(self.engine(major).program)
            except Unprocessable:
                continue
        return programs

    def detect_all(self) -> None:
        """Detect the programs before a request needs them: engine 2 takes seconds to report its version."""
        self.found()


ENGINES = Part[Engines]("engines")


def _detect(path: str, home: str) -> EngineProgram:
    try:
        return detect(path, home)
    except (EngineNotInstalled, EngineUnsupported) as error:
        raise Unprocessable(error.key, str(error)) from error


def install_id(data_dir: Path) -> str:
    """The identity under which this installation takes engine locks. Created once; it must never change."""
    return create_once(data_dir / "install-id", f"holdfast-{uuid.uuid4().hex}@localhost\n").strip()
