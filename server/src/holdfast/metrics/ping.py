"""Call a URL every minute while all is well, so that an outside monitor notices when the service is dead."""

import http.client
from collections.abc import Callable
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import structlog
from sqlalchemy import column, select, table

from holdfast.errors import Unavailable
from holdfast.kit import clock
from holdfast.kit.supervisor import Supervisor
from holdfast.storage.session import Database
from holdfast.storage.types import UtcDateTime

log = structlog.get_logger("holdfast.ping")

EVERY_SECONDS = 60.0
ANSWER_SECONDS = 10.0
LARGEST_ANSWER = 4096
KEEPS_FAILING = 3
TICK_IS_LATE = timedelta(minutes=5)

_LAST_TICK = select(column("last_tick_at", UtcDateTime)).select_from(table("schedule_state"))

Call = Callable[[str], int]


class Ping:
    """Calls a URL while the store answers, no loop keeps failing, and schedules are being checked."""

    def __init__(self, url: str, database: Database, supervisor: Supervisor, call: Call | None = None) -> None:
        self._url = url
        self._database = database
        self._supervisor = supervisor
        self._call = call or get

    def step(self) -> bool:
        """Call the URL if all is well; return whether it was called and accepted."""
        trouble = self.trouble(clock.now())
        if trouble is not None:
            log.warning("the ping is left out", reason=trouble)
            return False
        try:
            status = self._call(self._url)
        except (OSError, http.client.HTTPException, ValueError) as error:
            log.warning("the ping failed", reason=f"{type(error).__name__}: {error}"[:200])
            return False
        if not 200 <= status < 300:
            log.warning("the ping was refused", status=status)
        return 200 <= status < 300

    def trouble(self, now: datetime) -> str | None:
        """The current problem, or None if all is well."""
        failing = [loop.name for loop in self._supervisor.failing() if loop.failures_in_a_row >= KEEPS_FAILING]
        if failing:
            return f"failing loops: {', '.join(failing)}"
        try:
            with self._database.reading() as session:
                last = session.execute(_LAST_TICK).scalars().first()
        except Unavailable:
            return "the store cannot be reached"
        return "schedules are not checked" if last is not None and now - last > TICK_IS_LATE else None


def get(url: str) -> int:
    """Send a GET and return the status. Redirects are not followed, and only the start of the response is read."""
    place = urlsplit(url)
    if place.scheme not in ("http", "https") or not place.hostname:
        raise ValueError("HOLDFAST_PING_URL must be an http or https address")
    kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    connection = kind(place.hostname, place.port, timeout=ANSWER_SECONDS)
    try:
        target = (place.path or "/") + (f"?{place.query}" if place.query else "")
        connection.request("GET", target, headers={"User-Agent": "holdfast", "Connection": "close"})
        answer = connection.getresponse()
        answer.read(LARGEST_ANSWER)
        return answer.status
    finally:
        connection.close()
