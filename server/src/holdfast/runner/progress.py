"""The latest progress of each running operation, kept in memory and stored together."""

import threading
from typing import Any

from holdfast.operations import runners
from holdfast.storage.session import Database


class ProgressCache:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: dict[int, tuple[int, dict[str, Any]]] = {}
        self._changed: set[int] = set()

    def put(self, operation_id: int, attempt: int, values: dict[str, Any]) -> None:
        with self._lock:
            known = self._latest.get(operation_id)
            merged = {**known[1], **values} if known and known[0] == attempt else dict(values)
            self._latest[operation_id] = (attempt, merged)
            self._changed.add(operation_id)

    def latest(self, operation_id: int) -> dict[str, Any] | None:
        with self._lock:
            known = self._latest.get(operation_id)
            return dict(known[1]) if known else None

    def forget(self, operation_id: int) -> None:
        with self._lock:
            self._latest.pop(operation_id, None)
            self._changed.discard(operation_id)

    def known(self) -> frozenset[int]:
        """Return the operations whose progress is kept."""
        with self._lock:
            return frozenset(self._latest)

    def flush(self, database: Database) -> None:
        """Store all changes since the last flush in one transaction; without changes, do nothing."""
        with self._lock:
            rows = [
                {"b_id": number, "b_attempt": self._latest[number][0], "b_progress": self._latest[number][1]}
                for number in self._changed
            ]
            self._changed.clear()
        if not rows:
            return
        try:
            with database.writing() as session:
                runners.write_progress(session, rows)
        except BaseException:
            with self._lock:  # a later flush may succeed
                self._changed |= self._latest.keys() & {row["b_id"] for row in rows}
            raise
