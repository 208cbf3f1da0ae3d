"""The base of all tables."""

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import Index, MetaData, Text, TextClause
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from holdfast.storage.types import Identifier, JsonValue, UtcDateTime

NEVER_REUSED = {"sqlite_autoincrement": True}
"""The last of `__table_args__` where a table has others.

Without it SQLite gives the id of a removed row to the next one, and an id in the audit trail would name two.
"""


class Base(DeclarativeBase):
    """The types of columns follow from their annotations, except where a column says more."""

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
    """A row whose id the store gives out, once."""

    __abstract__ = True

    id: Mapped[int] = mapped_column(Identifier, primary_key=True, autoincrement=True, sort_order=-1)

    __table_args__: Any = NEVER_REUSED


def partial_index(name: str, *columns: str, where: TextClause, unique: bool = False) -> Index:
    """An index of the rows that fulfil a condition.

    Migrations make it, on each store in its own way; naming PostgreSQL here would load its dialect for nothing.
    """
    return Index(name, *columns, unique=unique, sqlite_where=where)
