"""Inserts with a rule for existing rows, for both databases."""

from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects import sqlite
from sqlalchemy.orm import DeclarativeBase, Session

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql


def insert_unless_there(session: Session, model: type[DeclarativeBase], values: dict[str, Any]) -> Any | None:
    """Insert a row and return its key; None if a unique value already exists, including in another transaction."""
    (key,) = model.__table__.primary_key
    statement = conflict_aware_insert(session, model).values(values).on_conflict_do_nothing().returning(key)
    return session.execute(statement).scalar_one_or_none()


def insert_or_replace(
    session: Session, model: type[DeclarativeBase], key: dict[str, Any], values: dict[str, Any]
) -> None:
    """Insert a row, or update the row with this key."""
    statement = conflict_aware_insert(session, model).values({**key, **values})
    session.execute(statement.on_conflict_do_update(index_elements=list(key), set_=values))


def conflict_aware_insert(session: Session, model: type[DeclarativeBase]) -> "sqlite.Insert | postgresql.Insert":
    if session.get_bind().dialect.name == "sqlite":
        return sqlite.insert(model)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(model)
