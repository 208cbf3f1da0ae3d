"""Records when a session or token was last used: in the background, at most once a minute each."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Literal

import structlog
from sqlalchemy import Update, bindparam, update

from holdfast.access.models import AccountToken, LoginSession
from holdfast.api.parts import Part
from holdfast.errors import Unavailable
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.access")

Credential = Literal["session", "token"]
Noted = tuple[tuple[Credential, int], datetime]
INTERVAL = timedelta(minutes=1)

TOUCH: dict[Credential, Update] = {
    "session": update(LoginSession.__table__)  # type: ignore[arg-type]
    .where(LoginSession.__table__.c.id == bindparam("row_id"))
    .values(last_used_at=bindparam("used_at")),
    "token": update(AccountToken.__table__)  # type: ignore[arg-type]
    .where(AccountToken.__table__.c.id == bindparam("row_id"))
    .values(last_used_at=bindparam("used_at")),
}


class LastUsed:
    """Collects uses, which one thread writes. No request waits for it, and reading requests never have to write."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._pending: dict[tuple[Credential, int], datetime] = {}
        self._closed = False
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="last-used")

    def touch(self, credential: Credential, row_id: int, stored: datetime | None, now: datetime) -> None:
        """Note a use, given the stored time. Losing one, in a crash or while the store is down, costs one minute of
        accuracy.
        """
        if stored is not None and now - stored < INTERVAL:
            return
        with self._lock:
            first = not self._pending
            self._pending.setdefault((credential, row_id), now)
            if first and not self._closed:
                self._writer.submit(self._write_all)

    def close(self) -> None:
        """Write the collected uses and stop."""
        with self._lock:
            self._closed = True
        self._writer.shutdown(wait=True)

    def _write_all(self) -> None:
        while noted := self._noted():
            try:
                self._write(noted)
            except Unavailable:
                log.warning("the last use of credentials could not be stored", count=len(noted))
            finally:
                self._forget(noted)

    def _noted(self) -> dict[tuple[Credential, int], datetime]:
        with self._lock:
            return dict(self._pending)

    def _forget(self, noted: dict[tuple[Credential, int], datetime]) -> None:
        """Drop written uses, only after the commit: until then the stored time is old, and the next use would be noted
        again.
        """
        with self._lock:
            for key in noted:
                self._pending.pop(key, None)

    def _write(self, noted: dict[tuple[Credential, int], datetime]) -> None:
        for batch in self._batches(list(noted.items())):
            with self._database.writing() as session:
                for (credential, row_id), used_at in batch:
                    session.connection().execute(TOUCH[credential], {"row_id": row_id, "used_at": used_at})

    def _batches(self, noted: list[Noted]) -> list[list[Noted]]:
        """All in one transaction if there is a single writer (SQLite); otherwise one by one.

        Ending all sessions of a user locks the same rows in a different order; holding one lock at a time avoids
        deadlocks.
        """
        return [noted] if self._database.is_sqlite else [[one] for one in noted]


LAST_USED = Part[LastUsed]("last_used")
