"""Rows by their ids."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.orm import Session

from holdfast.kit.fields import LARGEST_IDENTIFIER
from holdfast.storage.base import Base

Table = TypeVar("Table", bound=Base)


def find_row(session: Session, table: type[Table], row_id: int) -> Table | None:
    """The row, if there is one; an id that no row can have is not asked for."""
    return session.get(table, row_id) if 0 < row_id <= LARGEST_IDENTIFIER else None


def require_row(session: Session, table: type[Table], row_id: int, unknown: Callable[[int], Exception]) -> Table:
    """The row. Raise `unknown` if there is none."""
    found = find_row(session, table, row_id)
    if found is None:
        raise unknown(row_id)
    return found
