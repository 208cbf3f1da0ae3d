"""Many rows at once, as plain values. What the object mapper does for each row is most of what a row costs."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

from sqlalchemy import JSON, Connection, Dialect, Result, func, select, text, type_coerce
from sqlalchemy.orm import DeclarativeBase, Session

from holdfast.storage.types import SharedJson

Rows = Sequence[Mapping[str, Any]]


def beside_objects(session: Session) -> Connection:
    """The connection of a transaction, for reading rows as values: the object mapper would look at each once more."""
    session.flush()
    return session.connection()


def objects(found: Result[Any]) -> list[Any]:
    """Rows as simple objects, whose fields are read ten times as fast as those of a row."""
    names = tuple(found.keys())
    return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in found.all()]


def plain(*columns: Any) -> list[Any]:
    """Columns to be read as values that nobody changes."""
    found = (getattr(column, "expression", column) for column in columns)
    return [
        type_coerce(column, SharedJson()).label(column.name) if isinstance(column.type, JSON) else column
        for column in found
    ]


def insert_many(session: Session, model: type[DeclarativeBase], rows: Rows, *, unless_there: bool = False) -> None:
    """Insert rows that all name the same columns; defaults of the model are not applied.

    `unless_there`: leave out rows that a unique key refuses.
    """
    if not rows:
        return
    connection, table = session.connection(), model.__tablename__
    names = tuple(rows[0])
    listed = ", ".join(map(connection.dialect.identifier_preparer.quote, names))
    rule = "ON CONFLICT DO NOTHING" if unless_there else ""
    if connection.dialect.name == "sqlite":
        places = ", ".join("?" * len(names))
        statement = f"INSERT INTO {table} ({listed}) VALUES ({places}) {rule}"  # noqa: S608 - our own names
        _many(connection, statement, model, names, rows)
    else:
        statement = f"INSERT INTO {table} ({listed}) SELECT {listed} FROM {_given(table)} {rule}"  # noqa: S608 - as above
        _as_json(connection, statement, rows)


def update_many(session: Session, model: type[DeclarativeBase], rows: Rows) -> None:
    """Update rows by their `id`; all name the same columns. Objects that the session has loaded are not changed."""
    if not rows:
        return
    connection, table = session.connection(), model.__tablename__
    names = [name for name in rows[0] if name != "id"]
    if connection.dialect.name == "sqlite":
        changes = ", ".join(f"{name} = ?" for name in names)
        statement = f"UPDATE {table} SET {changes} WHERE id = ?"  # noqa: S608 - our own names
        _many(connection, statement, model, [*names, "id"], rows)
    else:
        changes = ", ".join(f"{name} = given.{name}" for name in names)
        statement = f"UPDATE {table} SET {changes} FROM {_given(table)} WHERE {table}.id = given.id"  # noqa: S608 - as above
        _as_json(connection, statement, rows)


def next_ids(session: Session, model: type[DeclarativeBase], number: int) -> list[int]:
    """Ids for new rows, ascending, that no other transaction gets. SQLite's write lock is held: the next ones are free."""
    table = model.__tablename__
    if session.get_bind().dialect.name == "sqlite":
        used = session.scalar(text("SELECT seq FROM sqlite_sequence WHERE name = :table"), {"table": table}) or 0
        return list(range(used + 1, used + number + 1))
    following = func.nextval(func.pg_get_serial_sequence(table, "id"))
    return sorted(session.scalars(select(following).select_from(func.generate_series(1, number))))


def _many(
    connection: Connection, statement: str, model: type[DeclarativeBase], names: Sequence[str], rows: Rows
) -> None:
    """A prepared statement for each row."""
    columns = zip(*map(itemgetter(*names), rows), strict=True)
    converted = [_converted(connection, model, name, values) for name, values in zip(names, columns, strict=True)]
    connection.exec_driver_sql(statement, list(zip(*converted, strict=True)))


def _converted(connection: Connection, model: type[DeclarativeBase], name: str, values: Sequence[Any]) -> Sequence[Any]:
    """A column as the driver takes it. Many rows share their times and values of JSON, so each is converted once."""
    convert = _converter(connection.dialect, model, name)
    if convert is None:
        return values
    try:
        known = {value: convert(value) for value in set(values)}
        return [known[value] for value in values]
    except TypeError:  # JSON
        shared: dict[int, Any] = {}
        for value in values:
            if id(value) not in shared:
                shared[id(value)] = convert(value)
        return [shared[id(value)] for value in values]


@cache
def _converter(dialect: Dialect, model: type[DeclarativeBase], name: str) -> Callable[[Any], Any] | None:
    return model.__table__.c[name].type.dialect_impl(dialect).bind_processor(dialect)


def _as_json(connection: Connection, statement: str, rows: Rows) -> None:
    """One statement with all rows in one parameter: PostgreSQL reads them faster than the driver binds them."""
    connection.exec_driver_sql(statement, (json.dumps(rows, default=_as_utc),))


def _given(table: str) -> str:
    return f"json_populate_recordset(NULL::{table}, %s::json) AS given"


def _as_utc(value: object) -> str:
    """A time as `UtcDateTime` stores it."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise TypeError(f"{value!r} cannot be stored")
    return value.astimezone(UTC).replace(tzinfo=None).isoformat()
