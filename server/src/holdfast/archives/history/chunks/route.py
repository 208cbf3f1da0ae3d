"""Which way an archive is read: by chunks where that is known to be right, else by the engine's listing."""

import hashlib
import json
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from holdfast.archives.history.chunks.program import HELPER, HELPER_2, interpreter_of
from holdfast.archives.history.errors import SelfTestFailed

_TRIED = re.compile(r"1\.(2|4)\.\d+|2\.0\.0b23")  # whose private interfaces the helpers were written against
_FAILURE_STANDS_SECONDS = 24 * 3600.0  # a failed self-test may have had a passing cause, a full disk for one


class Route(StrEnum):
    CHUNKS = "chunks"
    LISTING = "listing"


@dataclass(frozen=True)
class RouteDecision:
    route: Route
    reason: str


class RouteChooser:
    """Given a file to remember verdicts in, decide per engine program and version, testing each once."""

    def __init__(self, verdicts: Path, *, test: Callable[[Path, int], None] | None = None) -> None:
        self._verdicts = verdicts
        self._test = test

    def choose(self, program: Path, version: str) -> RouteDecision:
        """Return how to read archives with this program. The first call for a program takes some seconds."""
        decision = self.known(program, version)
        if decision is None:
            self._remember(_identity(program, version), self._try(program, major_of(version)))
            decision = self.known(program, version)
        assert decision is not None
        return decision

    def known(self, program: Path, version: str) -> RouteDecision | None:
        """The same, if it is known without a test."""
        if not _TRIED.fullmatch(version):
            return RouteDecision(Route.LISTING, f"engine {version} is not one the chunk route was written for")
        if interpreter_of(program) is None:
            return RouteDecision(Route.LISTING, "the engine is a standalone program without a Python of its own")
        verdict = self._remembered(_identity(program, version))
        if verdict is None:
            return None
        if verdict:
            return RouteDecision(Route.LISTING, f"the self-test with engine {version} failed: {verdict}")
        return RouteDecision(Route.CHUNKS, f"the self-test with engine {version} passed")

    def forget(self) -> None:
        """Test every program again."""
        self._verdicts.unlink(missing_ok=True)

    def _try(self, program: Path, major: int) -> str:
        """Return why the chunk route cannot be used, or nothing."""
        try:
            (self._test or _self_test())(program, major)
        except SelfTestFailed as failure:
            return str(failure) or "no reason given"
        return ""

    def _remembered(self, identity: str) -> str | None:
        entry = self._read().get(identity)
        if not isinstance(entry, dict) or not isinstance(entry.get("failure"), str):
            return None
        failure: str = entry["failure"]
        if failure and time.time() - float(entry.get("time", 0)) > _FAILURE_STANDS_SECONDS:
            return None
        return failure

    def _remember(self, identity: str, failure: str) -> None:
        known = self._read()
        known[identity] = {"failure": failure, "time": time.time()}
        self._verdicts.parent.mkdir(parents=True, exist_ok=True)
        new = self._verdicts.with_name(f"{self._verdicts.name}.{secrets.token_hex(4)}.new")
        new.write_text(json.dumps(known, indent=1))
        new.replace(self._verdicts)

    def _read(self) -> dict[str, Any]:
        try:
            known = json.loads(self._verdicts.read_text())
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}


def major_of(version: str) -> int:
    return int(version.partition(".")[0])


def _self_test() -> Callable[[Path, int], None]:
    from holdfast.archives.history.chunks.selftest import self_test  # brings in the whole index

    return self_test


def _identity(program: Path, version: str) -> str:
    """What a verdict holds for: this file of the engine, this version, this helper."""
    real = program.resolve()
    status = real.stat()
    helper = hashlib.sha256(HELPER.read_bytes() + HELPER_2.read_bytes()).hexdigest()[:16]
    return f"{real} {status.st_size} {status.st_mtime_ns} {version} {helper}"
