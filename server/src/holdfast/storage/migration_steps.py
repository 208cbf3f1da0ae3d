"""A short notation for migrations: a table or an index in a few lines, named according to the conventions.

Like migrations, this file must not change its behaviour: `tests/architecture/test_store_schema.py` compares the effects
of migrations with those recorded when they were written.
"""

import re
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

from holdfast.storage import types

NO_CHECKS: Mapping[str, str] = {}
COLUMN = re.compile(r"(?P<name>\w+) (?P<type>[a-z]+)(?:\((?P<size>\d+)\))?(?P<null>\?)?")
SERIAL = "serial"
COUNTED = "counted"
FLAG = "flag"
TYPES: Mapping[str, TypeEngine[Any]] = {
    SERIAL: types.Identifier,
    COUNTED: types.Identifier,
    "identifier": types.Identifier,
    "json": types.JsonValue,
    "time": types.UtcDateTime(),
    "text": sa.Text(),
    "integer": sa.Integer(),
    "bigint": sa.BigInteger(),
    "float": sa.Float(),
    "double": sa.Float(53),
    "boolean": sa.Boolean(),
    FLAG: sa.Boolean(),
    "date": sa.Date(),
    "bytes": sa.LargeBinary(),
}


def create_table(
    name: str,
    columns: str,
    *,
    key: str = "id",
    checks: Mapping[str, str] = NO_CHECKS,
    refers: str = "",
    unique: str = "",
) -> None:
    """Create a table.

    `columns` are names with types, with `?` for those that may be NULL: `"id serial, name string(200), seen_at time?"`.
    `checks` are conditions by name. `refers` are foreign keys: `"user_id users.id cascade"`. `unique` are columns, as
    in `"uuid, repository_id name"`. A `serial` id is never reused; a `counted` one may be, on SQLite. A `flag` defaults
    to false.
    """
    op.create_table(
        name,
        *(_column(text) for text in _parts(columns)),
        *(sa.CheckConstraint(condition, name=op.f(f"ck_{name}_{rule}")) for rule, condition in checks.items()),
        *(_foreign_key(name, *text.split()) for text in _parts(refers)),
        sa.PrimaryKeyConstraint(*key.split(), name=op.f(f"pk_{name}")),
        *(_unique(name, text.split()) for text in _parts(unique)),
        sqlite_autoincrement=bool(re.search(rf"\b{SERIAL}\b", columns)),
    )


def create_indexes(table: str, indexes: str) -> None:
    """Create indexes, one per line: `ix_name: columns` or `unique ix_name: columns`, then maybe ` where condition`."""
    for line in indexes.strip().splitlines():
        named, content = line.strip().split(": ", 1)
        name = named.removeprefix("unique ")
        columns, _, where = content.partition(" where ")
        rows = sa.text(where) if where else None
        op.create_index(
            op.f(name), table, columns.split(), unique=named != name, sqlite_where=rows, postgresql_where=rows
        )


def add_columns(table: str, columns: str, *, default: str | None = None) -> None:
    """Add columns in the notation of `create_table`. Columns that may not be NULL need a default for existing rows."""
    for text in _parts(columns):
        op.add_column(table, _column(text, default))


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _column(text: str, default: str | None = None) -> sa.Column[Any]:
    found = COLUMN.fullmatch(text)
    if found is None:
        raise ValueError(f"not a column: {text}")
    is_numbered = found["type"] in (SERIAL, COUNTED)
    return sa.Column(
        found["name"],
        _type(found["type"], found["size"]),
        autoincrement=is_numbered,
        nullable=bool(found["null"]),
        server_default=sa.false() if found["type"] == FLAG else default,
    )


def _type(word: str, size: str | None) -> TypeEngine[Any]:
    if size is not None:
        return sa.String(length=int(size))
    return TYPES[word]


def _foreign_key(table: str, column: str, target: str, *cascade: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [column], [target], name=op.f(f"fk_{table}_{column}"), ondelete="CASCADE" if cascade else None
    )


def _unique(table: str, columns: list[str]) -> sa.UniqueConstraint:
    return sa.UniqueConstraint(*columns, name=op.f(f"uq_{table}_{'_'.join(columns)}"))
