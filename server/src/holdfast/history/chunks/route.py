"""Choose how archives are read: by chunks if that is proven to be correct, otherwise by the engine's listing."""

import hashlib
import json
import re
import secrets
import time
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from backup_engine.frozen import frozen
from holdfast.history.chunks.far import FarEngine
from holdfast.history.chunks.program import HELPER, HELPER_2, interpreter_of
from holdfast.history.errors import SelfTestFailed

_TRIED = re.compile(r"1\.(2|4)\.\d+|2\.0\.0b23")  # versions whose private interfaces the helpers were written for
_FAILURE_STANDS_SECONDS = 24 * 3600.0  # a self-test may fail for a temporary reason, such as a full disk
_FAILURE_THERE_STANDS_SECONDS = 3600.0  # or a broken link


class Route(StrEnum):
    CHUNKS = "chunks"
    LISTING = "listing"


@frozen
class RouteDecision:
    route: Route
    reason: str
    tested: str | None = None
    """On another machine: the fingerprint of the program that has passed the self-test."""


class RouteChooser:
    """Decides for each engine program and version, testing each once. Verdicts are stored in a file."""

    def __init__(self, verdicts: Path, *, test: Callable[[Path, int], None] | None = None) -> None:
        self._verdicts = verdicts
        self._test = test

    def choose(self, program: Path, version: str) -> RouteDecision:
        """Return how to read archives with this program. The first call for a program takes some seconds."""

        def test() -> None:
            self._remember(_identity(program, version), self._try(program, major_of(version)))

        return _known_after(test, partial(self.known, program, version))

    def known(self, program: Path, version: str) -> RouteDecision | None:
        """Return the decision if it is known without a test; else None."""
        if not _TRIED.fullmatch(version):
            return _not_written_for(version)
        if interpreter_of(program) is None:
            return RouteDecision(Route.LISTING, "the engine is a standalone program without its own Python")
        verdict = self._remembered(_identity(program, version))
        if verdict is None:
            return None
        if verdict:
            return RouteDecision(Route.LISTING, f"the self-test with engine {version} failed: {verdict}")
        return RouteDecision(Route.CHUNKS, f"the self-test with engine {version} passed")

    def choose_there(self, far: FarEngine, version: str) -> RouteDecision:
        """Like `choose`, for an engine on another machine; the self-test runs there."""

        def test() -> None:
            failure, tested = self._try_there(far, major_of(version))
            self._remember(far.key, failure, tested=tested)

        return _known_after(test, partial(self.known_there, far, version))

    def known_there(self, far: FarEngine, version: str) -> RouteDecision | None:
        """Like `known`, for an engine on another machine."""
        if not _TRIED.fullmatch(version):
            return _not_written_for(version)
        verdict = self._remembered(far.key)
        if verdict is None:
            return None
        tested = self._read().get(far.key, {}).get("tested")
        if verdict or not isinstance(tested, str):
            return RouteDecision(Route.LISTING, f"the self-test on the machine failed: {verdict}")
        return RouteDecision(Route.CHUNKS, f"the self-test on the machine with engine {version} passed", tested)

    def choose_called(self, agent: str, version: str, test: Callable[[], None]) -> RouteDecision:
        """Like `choose`, for an agent's engine. `agent` names the agent and the program; `test` calls the agent."""
        if not _TRIED.fullmatch(version):
            return _not_written_for(version)
        key, tested = f"agent {hashlib.sha256(agent.encode()).hexdigest()[:24]}", f"{version} {_helpers()}"
        failure = self._remembered(key)
        if failure is None or self._read()[key].get("tested") != tested:
            failure = ""
            try:
                test()
            except SelfTestFailed as failed:
                failure = str(failed) or "no reason given"
            self._remember(key, failure, tested=tested)
        if failure:
            return RouteDecision(Route.LISTING, f"the self-test on the agent's machine failed: {failure}")
        return RouteDecision(Route.CHUNKS, f"the self-test on the agent's machine with engine {version} passed")

    def forget_there(self, far: FarEngine) -> None:
        """Test this program again, because it has changed."""
        known = self._read()
        if known.pop(far.key, None) is not None:
            self._write(known)

    def forget(self) -> None:
        """Test every program again."""
        self._verdicts.unlink(missing_ok=True)

    def _try(self, program: Path, major: int) -> str:
        """Return why the chunk route cannot be used; empty if it can."""
        try:
            (self._test or _self_test())(program, major)
        except SelfTestFailed as failure:
            return str(failure) or "no reason given"
        return ""

    def _try_there(self, far: FarEngine, major: int) -> tuple[str, str]:
        from holdfast.history.chunks.selftest import self_test_there  # loads the whole index

        try:
            return "", self_test_there(far, major)
        except SelfTestFailed as failure:
            return str(failure) or "no reason given", ""

    def _remembered(self, identity: str) -> str | None:
        entry = self._read().get(identity)
        if not isinstance(entry, dict) or not isinstance(entry.get("failure"), str):
            return None
        failure: str = entry["failure"]
        stands = _FAILURE_THERE_STANDS_SECONDS if "tested" in entry else _FAILURE_STANDS_SECONDS
        if failure and time.time() - float(entry.get("time", 0)) > stands:
            return None
        return failure

    def _remember(self, identity: str, failure: str, **more: str) -> None:
        known = self._read()
        known[identity] = {"failure": failure, "time": time.time(), **more}
        self._write(known)

    def _write(self, known: dict[str, Any]) -> None:
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


def _known_after(test: Callable[[], None], known: Callable[[], RouteDecision | None]) -> RouteDecision:
    """Return the known decision; run the test only if there is none."""
    decision = known()
    if decision is None:
        test()
        decision = known()
    assert decision is not None
    return decision


def _not_written_for(version: str) -> RouteDecision:
    return RouteDecision(Route.LISTING, f"engine {version} is not one the chunk route was written for")


def major_of(version: str) -> int:
    return int(version.partition(".")[0])


def _self_test() -> Callable[[Path, int], None]:
    from holdfast.history.chunks.selftest import self_test  # loads the whole index

    return self_test


def _identity(program: Path, version: str) -> str:
    """Return what a verdict is valid for: this file of the engine, this version, this helper."""
    real = program.resolve()
    status = real.stat()
    return f"{real} {status.st_size} {status.st_mtime_ns} {version} {_helpers()}"


def _helpers() -> str:
    return hashlib.sha256(HELPER.read_bytes() + HELPER_2.read_bytes()).hexdigest()[:16]
