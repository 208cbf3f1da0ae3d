"""Finds rows by id, and changes rows while reporting which ones were changed."""

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, update
from sqlalchemy.orm import Session

from holdfast.kit.fields import LARGEST_IDENTIFIER
from holdfast.storage.base import Base

Table = TypeVar("Table", bound=Base)


def find_row(session: Session, table: type[Table], row_id: int) -> Table | None:
    """Return the row, if there is one. No query is made for an id that no row can have."""
    return session.get(table, row_id) if 0 < row_id <= LARGEST_IDENTIFIER else None


def require_row(session: Session, table: type[Table], row_id: int, unknown: Callable[[int], Exception]) -> Table:
    """Return the row. Raise `unknown` if there is none."""
    found = find_row(session, table, row_id)
    if found is None:
        raise unknown(row_id)
    return found


def change_rows(session: Session, table: Any, *conditions: ColumnElement[bool], **values: Any) -> list[int]:
    """Change the rows that meet all conditions, and return their ids. Objects in the session are not updated."""
    statement = update(table).where(*conditions).values(**values).returning(table.id)
    return list(session.scalars(statement.execution_options(synchronize_session=False)))
