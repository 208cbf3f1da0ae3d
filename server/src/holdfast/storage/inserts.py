"""Inserts that know what to do when the row is there already, on either database."""

from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import DeclarativeBase, Session


def insert_unless_there(session: Session, model: type[DeclarativeBase], values: dict[str, Any]) -> int | None:
    """Insert a row and return its id; None if a unique column says that it is there, or another transaction's is."""
    identifier = model.__table__.c.id
    statement = conflict_aware_insert(session, model).values(values).on_conflict_do_nothing().returning(identifier)
    return session.execute(statement).scalar_one_or_none()


def insert_or_replace(
    session: Session, model: type[DeclarativeBase], key: dict[str, Any], values: dict[str, Any]
) -> None:
    """Insert a row, or give the row with this key these values."""
    statement = conflict_aware_insert(session, model).values({**key, **values})
    session.execute(statement.on_conflict_do_update(index_elements=list(key), set_=values))


def conflict_aware_insert(session: Session, model: type[DeclarativeBase]) -> sqlite.Insert | postgresql.Insert:
    if session.get_bind().dialect.name == "sqlite":
        return sqlite.insert(model)
    return postgresql.insert(model)
