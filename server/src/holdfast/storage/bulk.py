"""Handles many rows at once as plain values, because most of the cost of a row is the object mapper's work on it."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

from sqlalchemy import (
    Boolean,
    Connection,
    Dialect,
    Float,
    Integer,
    Result,
    Select,
    any_,
    bindparam,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Session

from backup_engine.frozen import frozen
from holdfast.kit.request_priority import give_way
from holdfast.storage.types import IdList, Json, UtcDateTime, stored_text

Rows = Sequence[Mapping[str, Any]]


def flushed_connection(session: Session) -> Connection:
    """Return the transaction's connection for reading rows as plain values, without the object mapper's overhead."""
    session.flush()
    return session.connection()


def objects(found: Result[Any]) -> list[Any]:
    """Return rows as simple objects, whose fields are read ten times as fast as those of a row."""
    names = tuple(found.keys())
    return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in found.all()]


def plain(*columns: Any) -> list[Any]:
    """Return columns to be read as values that nobody changes."""
    found = (getattr(column, "expression", column) for column in columns)
    return [stored_text(column).label(column.name) if isinstance(column.type, Json) else column for column in found]


def plan_for_size(session: Session) -> None:
    """Make PostgreSQL plan each statement of this transaction for its actual values; a cached plan fits no size."""
    if session.get_bind().dialect.name == "postgresql":
        session.connection().exec_driver_sql("SET LOCAL plan_cache_mode = force_custom_plan")


class ByIds:
    """A statement for rows with given ids.

    PostgreSQL receives the ids as a single value: hundreds of separate ones cost more than the rows.
    """

    def __init__(self, statement: Select[Any], column: Any) -> None:
        self._one_by_one = statement.where(column.in_(bindparam("ids", expanding=True)))
        self._as_one = statement.where(column == any_(bindparam("ids", type_=IdList())))

    def run(self, session: Session, ids: Sequence[int]) -> Result[Any]:
        connection = flushed_connection(session)
        if connection.dialect.name == "postgresql":
            return connection.execute(self._as_one, {"ids": ids})
        return connection.execute(self._one_by_one, {"ids": ids})


def insert_many(session: Session, model: type[DeclarativeBase], rows: Rows, *, unless_there: bool = False) -> int:
    """Insert rows that all have the same columns, without applying the model's defaults. Return how many were written.

    With `unless_there`, rows that violate a unique key are left out.
    """
    if not rows:
        return 0
    connection, table = session.connection(), model.__tablename__
    names = tuple(rows[0])
    listed = ", ".join(map(connection.dialect.identifier_preparer.quote, names))
    rule = "ON CONFLICT DO NOTHING" if unless_there else ""
    if connection.dialect.name == "sqlite":
        places = ", ".join("?" * len(names))
        statement = f"INSERT INTO {table} ({listed}) VALUES ({places}) {rule}"  # noqa: S608 - our own names
        return _many(connection, statement, model, names, rows)
    given = _RowValues.of(connection, model, names, rows, varying=names[0])
    wanted = ", ".join(given.expressions)
    statement = f"INSERT INTO {table} ({listed}) SELECT {wanted} FROM {given.table} {rule}"  # noqa: S608 - as above
    return connection.exec_driver_sql(statement, given.values).rowcount


def update_many(session: Session, model: type[DeclarativeBase], rows: Rows) -> None:
    """Update rows by their `id`; all must have the same columns. Objects in the session are not updated."""
    if not rows:
        return
    connection, table = session.connection(), model.__tablename__
    names = [name for name in rows[0] if name != "id"]
    if connection.dialect.name == "sqlite":
        changes = ", ".join(f"{name} = ?" for name in names)
        statement = f"UPDATE {table} SET {changes} WHERE id = ?"  # noqa: S608 - our own names
        _many(connection, statement, model, [*names, "id"], rows)
    else:
        given = _RowValues.of(connection, model, (*names, "id"), rows, varying="id")
        changes = ", ".join(f"{name} = {wanted}" for name, wanted in zip(names, given.expressions, strict=False))
        # The ids are repeated: for a join with the source alone, the server would read the whole table.
        which = f"{table}.id = given.id AND {table}.id = ANY (%s::bigint[])"
        statement = f"UPDATE {table} SET {changes} FROM {given.table} WHERE {which}"  # noqa: S608 - as above
        connection.exec_driver_sql(statement, (*given.values, given.values[-1]))


def next_ids(session: Session, model: type[DeclarativeBase], number: int) -> list[int]:
    """Return ids for new rows, in ascending order, that no other transaction gets.

    On SQLite, the transaction holds the write lock, so the next ids are free.
    """
    table = model.__tablename__
    if session.get_bind().dialect.name == "sqlite":
        used = session.scalar(text("SELECT seq FROM sqlite_sequence WHERE name = :table"), {"table": table}) or 0
        return list(range(used + 1, used + number + 1))
    return sorted(session.connection().exec_driver_sql(_NEXT_IDS, (table, number)).scalars())


def _many(
    connection: Connection, statement: str, model: type[DeclarativeBase], names: Sequence[str], rows: Rows
) -> int:
    """Execute a prepared statement for each row; return how many rows it changed."""
    give_way()
    columns = zip(*map(itemgetter(*names), rows), strict=True)
    converted = [_converted(connection, model, name, values) for name, values in zip(names, columns, strict=True)]
    values = list(zip(*converted, strict=True))
    give_way()
    return connection.exec_driver_sql(statement, values).rowcount


def _converted(connection: Connection, model: type[DeclarativeBase], name: str, values: Sequence[Any]) -> Sequence[Any]:
    """Return a column's values as the driver takes them. Rows often share times and JSON: each is converted once."""
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


@frozen
class _RowValues:
    """Rows as one source of a statement for PostgreSQL: an array per column, and shared values only once.

    The server unpacks arrays faster than it parses a document, and large parts of the rows are often identical.
    """

    table: str
    expressions: list[str]
    """For each column, in the given order: the expression for its value in a row of the source."""
    values: tuple[str | None, ...]

    @staticmethod
    def of(
        connection: Connection, model: type[DeclarativeBase], names: Sequence[str], rows: Rows, varying: str
    ) -> "_RowValues":
        """Prepare the rows. `varying` is a column that is never treated as shared by all rows."""
        shared: list[str | None] = []
        arrays: list[str | None] = []
        expressions, columns, types = [], [], []
        for name, found in zip(names, zip(*map(itemgetter(*names), rows), strict=True), strict=True):
            kind = _kind(model, name)
            if name != varying and _is_one(found, kind):
                expressions.append(f"%s::{kind}")
                shared.append(_text(kind, found[0]))
                continue
            quoted = connection.dialect.identifier_preparer.quote(name)
            expressions.append(f"given.{quoted}" if kind in ARRAYS else f"given.{quoted}::{kind}")
            columns.append(quoted)
            types.append(f"%s::{kind if kind in ARRAYS else 'text'}[]")
            arrays.append(_array(kind, found))
        source = f"unnest({', '.join(types)}) AS given({', '.join(columns)})"
        return _RowValues(source, expressions, (*shared, *arrays))


ARRAYS = ("bigint", "text")
"""Other types are cast from the elements of a text array.

Text itself is cast only by the store, which checks its length.
"""


@cache
def _kind(model: type[DeclarativeBase], name: str) -> str:
    """Return the type of a column as written in a statement for PostgreSQL."""
    column_type = model.__table__.c[name].type
    known = ((Integer, "bigint"), (Json, "jsonb"), (UtcDateTime, "timestamp"), (Float, "float8"), (Boolean, "boolean"))
    return next((word for python, word in known if isinstance(column_type, python)), "text")


def _is_one(values: Sequence[Any], kind: str) -> bool:
    """Whether all rows share a value. In JSON, values that compare equal may differ, such as 1 and true."""
    first = values[0]
    if kind == "jsonb":
        return all(value is first for value in values)
    return values.count(first) == len(values)


def _array(kind: str, values: Sequence[Any]) -> str:
    if kind == "bigint":
        return f"{{{','.join(['NULL' if value is None else str(value) for value in values])}}}"
    texts = [_text(kind, value) for value in values]
    quoted = ["NULL" if text is None else '"' + _escaped(text) + '"' for text in texts]
    return f"{{{','.join(quoted)}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"') if '"' in text or "\\" in text else text


def _text(kind: str, value: Any) -> str | None:
    if value is None:
        return None
    if kind == "jsonb":
        return json.dumps(value)
    return _as_utc(value) if kind == "timestamp" else str(value)


def _as_utc(value: object) -> str:
    """Return a time in the form in which `UtcDateTime` stores it."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise TypeError(f"{value!r} cannot be stored")
    return value.astimezone(UTC).replace(tzinfo=None).isoformat()


# The sequence is looked up once, not for every id.
_NEXT_IDS = """SELECT nextval(found.sequence)
FROM (SELECT pg_get_serial_sequence(%s, 'id')::regclass AS sequence OFFSET 0) AS found, generate_series(1, %s)"""
