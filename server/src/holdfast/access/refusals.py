"""Records refused requests in the audit trail, rate-limited so that they cannot fill the disk."""

import threading
from collections import Counter
from dataclasses import field
from datetime import datetime, timedelta

import structlog
from fastapi import Request
from starlette.concurrency import run_in_threadpool

from backup_engine.frozen import frozen
from holdfast.access import audit
from holdfast.access.caller import Caller, address_of
from holdfast.access.login import LoginRefused, LoginThrottled
from holdfast.errors import HoldfastError, Unavailable
from holdfast.kit import clock
from holdfast.kit.text import storable
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.access")

LOGIN_REFUSALS = (LoginRefused, LoginThrottled)
RECORDED = frozenset({401, 403, 429})
WINDOW = timedelta(minutes=1)
MAX_ALIKE = 5
MAX_STORED = 300
MAX_KINDS = 5_000
MAX_SUMMARIES = 100


@frozen
class Refusal:
    """A refused request. Refusals that differ only in their exact path are equal."""

    action: str
    key: str
    status: int
    method: str
    route: str
    address: str | None
    actor_user_id: int | None = None
    actor: str | None = None
    path: str = field(default="", compare=False)


OTHERS = Refusal("access.refused", "access.many", 403, "*", "*", None)


class RefusalCounts:
    """Decides which refusals of the current minute are stored and which are only counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began: datetime | None = None
        self._seen: Counter[Refusal] = Counter()
        self._unstored: Counter[Refusal] = Counter()
        self._stored = 0

    def add(self, refusal: Refusal, now: datetime) -> list[tuple[Refusal, int]]:
        """Count a refusal. Return the refusals to store now, each with its number of occurrences."""
        with self._lock:
            due = self._finish_window(now)
            if self._began is None:
                self._began = now
            if refusal not in self._seen and len(self._seen) >= MAX_KINDS:
                refusal = OTHERS
            self._seen[refusal] += 1
            if self._seen[refusal] <= MAX_ALIKE and self._stored < MAX_STORED:
                self._stored += 1
                return [*due, (refusal, 1)]
            self._unstored[refusal] += 1
            return due

    def finished(self, now: datetime, *, at_once: bool = False) -> list[tuple[Refusal, int]]:
        """Return the refusals of past minutes that were only counted; with ``at_once``, also those of the current
        minute.
        """
        with self._lock:
            return self._finish_window(now, at_once=at_once)

    def _finish_window(self, now: datetime, *, at_once: bool = False) -> list[tuple[Refusal, int]]:
        if self._began is None or (now - self._began < WINDOW and not at_once):
            return []
        summaries = self._unstored.most_common(MAX_SUMMARIES)
        rest = self._unstored.total() - sum(count for _, count in summaries)
        self._began, self._stored = None, 0
        self._seen.clear()
        self._unstored.clear()
        return [*summaries, (OTHERS, rest)] if rest else summaries


class RefusalListener:
    """Called for every refused request before its response is sent."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counts = RefusalCounts()

    async def __call__(self, request: Request, error: HoldfastError) -> None:
        if error.status not in RECORDED:
            return
        due = self._counts.add(_refusal(request, error), clock.now())
        if due:
            await run_in_threadpool(self._store, due)

    def flush(self, *, at_once: bool = False) -> None:
        due = self._counts.finished(clock.now(), at_once=at_once)
        if due:
            self._store(due)

    def _store(self, due: list[tuple[Refusal, int]]) -> None:
        try:
            with self._database.writing() as session:
                for refusal, count in due:
                    audit.add(
                        session,
                        audit.entry(
                            actor_user_id=refusal.actor_user_id,
                            actor=refusal.actor,
                            action=refusal.action,
                            outcome="refused",
                            address=refusal.address,
                            details=_details(refusal, count),
                        ),
                    )
        except Unavailable:  # the request stays refused even if that could not be recorded
            log.warning("refusals could not be stored", count=len(due))


def _refusal(request: Request, error: HoldfastError) -> Refusal:
    route = request.scope.get("route")
    actor_user_id, actor = _actor(request, error)
    return Refusal(
        action="auth.login" if isinstance(error, LOGIN_REFUSALS) else "access.refused",
        key=error.key,
        status=error.status,
        method=storable(request.method, 16),
        route=getattr(route, "path", ""),
        address=address_of(request),
        actor_user_id=actor_user_id,
        actor=actor,
        path=storable(request.url.path, 200),
    )


def _actor(request: Request, error: HoldfastError) -> tuple[int | None, str | None]:
    if isinstance(error, LOGIN_REFUSALS):
        return error.attempted_user_id, error.attempted_username
    caller: Caller | None = getattr(request.state, "caller", None)
    return (caller.user_id, caller.username) if caller else (None, None)


def _details(refusal: Refusal, count: int) -> dict[str, str | int]:
    details: dict[str, str | int] = {"key": refusal.key, "status": refusal.status, "method": refusal.method}
    if count == 1:
        return {**details, "path": refusal.path}
    return {**details, "route": refusal.route, "repeated": count}
