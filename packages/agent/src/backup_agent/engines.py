"""Find this machine's engine programs; each is inspected again only when its file changes."""

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from backup_agent import private_files
from backup_agent.places import Places
from backup_engine.created_once import create_once
from backup_engine.detect import (
    SUPPORTED_MAJORS,
    USUAL_NAMES,
    EngineNotInstalled,
    EngineProgram,
    EngineUnsupported,
    detect,
    program_in_path,
)
from backup_protocol import EngineVersion

if TYPE_CHECKING:
    from backup_engine.interface import Engine

Identity = tuple[str, int, int]
ASK_AGAIN_SECONDS = 60.0
"""Pause before a program is inspected again that was not recognised as an engine: the machine may have been busy."""


class Engines:
    def __init__(self, places: Places, configured: Mapping[int, str]) -> None:
        self._places = places
        self._configured = configured
        self._known: dict[Identity, EngineProgram] = {}
        self._unknown: dict[Identity, float] = {}
        self._lock = threading.Lock()

    def programs(self) -> dict[int, EngineProgram]:
        """The current program for each major. Costs only a few file lookups if nothing has changed."""
        found = {major: self._program(major) for major in SUPPORTED_MAJORS}
        return {major: program for major, program in found.items() if program is not None}

    def versions(self) -> tuple[EngineVersion, ...]:
        return tuple(
            EngineVersion(program.major, program.version, program.path) for program in self.programs().values()
        )

    def engine(self, major: int) -> "Engine":
        """Raise EngineNotInstalled or EngineUnsupported if this machine has no suitable engine of that major."""
        from backup_engine.environment import EngineEnvironment  # not loaded in an idle agent
        from backup_engine.interface import engine_for

        program = self._program(major)
        if program is None:
            raise EngineNotInstalled(f"BorgBackup {major} is not installed on this machine, or not found in its PATH.")
        private_files.make_folder(self._places.engine)
        return engine_for(program, EngineEnvironment(str(self._places.engine), install_id(self._places)))

    def _program(self, major: int) -> EngineProgram | None:
        configured = self._configured.get(major)
        for candidate in (configured,) if configured else USUAL_NAMES[major]:
            path = program_in_path(candidate)
            program = self._detected(path) if path else None
            if program is not None and program.major == major:
                return program
        return None

    def _detected(self, path: str) -> EngineProgram | None:
        try:
            found = Path(path).stat()
        except OSError:
            return None
        identity = (path, found.st_ino, found.st_mtime_ns)
        with self._lock:
            known = self._known.get(identity)
            if known is None and time.monotonic() >= self._unknown.get(identity, 0.0):
                known = self._ask(path)
                if known is None:
                    self._unknown[identity] = time.monotonic() + ASK_AGAIN_SECONDS
                else:
                    self._known[identity] = known
            return known

    def _ask(self, path: str) -> EngineProgram | None:
        private_files.make_folder(self._places.engine)
        try:
            return detect(path, str(self._places.engine))
        except (EngineNotInstalled, EngineUnsupported):
            return None


def install_id(places: Places) -> str:
    """Name that this installation uses in the engine's locks. Created once; it must never change."""
    private_files.make_folder(places.install_id_file.parent)
    return create_once(places.install_id_file, f"backup-agent-{os.urandom(16).hex()}@localhost\n").strip()
