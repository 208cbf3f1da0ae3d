"""Looks for contradictions in a store."""

from sqlalchemy import select, text

from holdfast.operations.models import Operation
from holdfast.operations.status import TERMINAL, LockMode, Status
from holdfast.storage.session import Database


def problems(database: Database) -> list[str]:
    found: list[str] = []
    with database.reading() as session:
        if database.is_sqlite:
            found += [
                f"database: {row[0]}" for row in session.execute(text("PRAGMA integrity_check")) if row[0] != "ok"
            ]
            found += [f"foreign key: {tuple(row)}" for row in session.execute(text("PRAGMA foreign_key_check"))]
        without_end = select(Operation.id).where(
            Operation.status.in_(tuple(TERMINAL)), Operation.completed_at.is_(None)
        )
        found += [f"operation {number}: ended without an end time" for number in session.scalars(without_end)]
        held: dict[str, list[tuple[int, str | None]]] = {}
        running = select(Operation.id, Operation.lock_key, Operation.lock_mode).where(
            Operation.status == Status.RUNNING, Operation.lock_key.is_not(None)
        )
        for number, key, mode in session.execute(running):
            held.setdefault(str(key), []).append((number, mode))
        for key, holders in held.items():
            if len(holders) > 1 and any(mode == LockMode.EXCLUSIVE for _, mode in holders):
                found.append(f"lane {key}: held by {[number for number, _ in holders]} at the same time")
    return found
