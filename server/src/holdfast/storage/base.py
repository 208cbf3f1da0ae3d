"""The base of all tables."""

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import Index, MetaData, Text, TextClause
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from holdfast.storage.types import Identifier, JsonValue, UtcDateTime

NEVER_REUSED = {"sqlite_autoincrement": True}
"""For tables with other `__table_args__`, this must be the last item.

Without it, SQLite gives the id of a deleted row to the next one, and an id in the audit trail would refer to two rows.
"""


class Base(DeclarativeBase):
    """Column types follow from annotations, unless a column specifies more."""

    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: Text,
        datetime: UtcDateTime,
        dict[str, Any]: JsonValue,
        list[str]: JsonValue,
        list[dict[str, Any]]: JsonValue,
    }
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class NumberedRow(Base):
    """A row with an id that the store assigns and never reuses."""

    __abstract__ = True

    id: Mapped[int] = mapped_column(Identifier, primary_key=True, autoincrement=True, sort_order=-1)

    __table_args__: Any = NEVER_REUSED


def partial_index(name: str, *columns: str, where: TextClause, unique: bool = False) -> Index:
    """Return an index of the rows that meet a condition.

    Migrations create it in each store's own way; naming PostgreSQL here would load its dialect unnecessarily.
    """
    return Index(name, *columns, unique=unique, sqlite_where=where)
