"""The newest operations that match a filter, at a cost that does not grow with the record.

A filter is split into streams, one for each combination of the values it allows in the leading columns of an index.
Within a stream, that index yields the rows in the order of their ids, so the newest ones of a stream take a few steps,
and the newest ones of all streams together include the newest ones of the filter. No query visits rows that do not
match: a rare combination costs as much as a frequent one, and so does a caller who may see none of the newest rows.

The table has an index for each set of axes, with their columns in the order of `AXES`, followed by the id. Status and
trigger always appear together: if a filter names only one of them, all values of the other are included.
"""

import json
from dataclasses import fields
from datetime import datetime
from functools import cache, reduce
from heapq import nlargest
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Cast,
    ColumnElement,
    FromClause,
    Select,
    Text,
    bindparam,
    cast,
    func,
    or_,
    select,
    true,
)
from sqlalchemy.orm import Session
from sqlalchemy.sql.selectable import NamedFromClause

from backup_engine.frozen import frozen
from holdfast.operations.models import Operation

AXES = {
    "repository_id": (Operation.repository_id, BigInteger),
    "kind": (Operation.kind, Text),
    "status": (Operation.status, Text),
    "trigger": (Operation.trigger, Text),
}
BEYOND_ALL_IDS = 2**63 - 1

Axes = dict[str, tuple[int, ...] | tuple[str, ...]]
"""Columns by their names in `AXES`, each with the wanted values."""


TEXTS = (
    Operation.repository_name,
    Operation.archive_name,
    Operation.schedule_name,
    Operation.package_name,
    Operation.triggered_by,
    Operation.error_message,
)
"""The columns that a text search covers."""


@frozen
class ListConditions:
    """Conditions that every list of operations accepts. None means: no condition."""

    since: datetime | None = None
    until: datetime | None = None
    machine_id: int | None = None
    triggered_by: str | None = None
    text: str | None = None

    def list_conditions(self) -> dict[str, Any]:
        """Return only the fields of this class, without those of subclasses."""
        return {one.name: getattr(self, one.name) for one in fields(ListConditions)}


@frozen
class Bounds(ListConditions):
    """Conditions on rows, besides the axes. None means: no condition."""

    below: int = BEYOND_ALL_IDS
    floor: int = 0
    of_repositories_only: bool | None = None
    parents_only: bool | None = None

    def values(self) -> dict[str, Any]:
        """Return the values to compare with, by their names in `CONDITIONS`."""
        given = {name: getattr(self, name) for name in CONDITIONS}
        given["text"] = _pattern(self.text) if self.text is not None else None
        given["below"] = self.below if self.below != BEYOND_ALL_IDS else None
        given["floor"] = self.floor or None
        return {name: value for name, value in given.items() if value is not None and value is not False}


def _pattern(text: str) -> str:
    escaped = text.lower().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


CONDITIONS: dict[str, ColumnElement[bool]] = {
    "below": Operation.id < bindparam("below"),
    "floor": Operation.id >= bindparam("floor"),
    "since": Operation.created_at >= bindparam("since"),
    "until": Operation.created_at <= bindparam("until"),
    "machine_id": Operation.machine_id == bindparam("machine_id"),
    "triggered_by": func.lower(Operation.triggered_by) == func.lower(bindparam("triggered_by")),
    "text": or_(*(func.lower(column).like(bindparam("text"), escape="\\") for column in TEXTS)),
    "of_repositories_only": Operation.repository_id.is_not(None),
    "parents_only": Operation.parent_id.is_(None),
}


def newest_ids(session: Session, axes: Axes, bounds: Bounds, limit: int) -> list[int]:
    """Return the ids of the newest rows on all axes and within the bounds, newest first."""
    found = _streams(session, axes, bounds, limit)
    return nlargest(limit, found) if axes else found


def newest_of_each(session: Session, axes: Axes, most: int) -> list[int]:
    """Return the ids of the newest rows of every single stream: at most `most` of each, in no order."""
    return _streams(session, axes, Bounds(), most)


def count(session: Session, axes: Axes, bounds: Bounds, most: int) -> int:
    """Return how many rows are on all axes and within the bounds; `most` if there are more."""
    numbers: list[int] = _of_each_stream(session, axes, bounds, most, counted=True)
    return min(most, sum(numbers))


def _streams(session: Session, axes: Axes, bounds: Bounds, most: int) -> list[int]:
    """Return the ids of the newest rows of each stream, at most `most` of each."""
    found = _of_each_stream(session, axes, bounds, most)
    if not axes:
        return found
    on_sqlite = session.get_bind().dialect.name == "sqlite"
    streams = (json.loads(stream) for stream in found) if on_sqlite else (stream for stream in found if stream)
    return [number for stream in streams for number in stream]


def _of_each_stream(session: Session, axes: Axes, bounds: Bounds, most: int, *, counted: bool = False) -> list[Any]:
    """Run the statement for this filter and return its results."""
    conditions = bounds.values()
    values: dict[str, Any] = {"most": most, **conditions}
    on_sqlite = session.get_bind().dialect.name == "sqlite"
    for name, wanted in axes.items():
        values[f"wanted_{name}"] = json.dumps(wanted) if on_sqlite else list(wanted)
    names = tuple(name for name in AXES if name in axes)
    statement = _statement(names, tuple(conditions), on_sqlite=on_sqlite, counted=counted)
    return list(session.connection().execute(statement, values).scalars())


@cache
def _statement(axes: tuple[str, ...], conditions: tuple[str, ...], *, on_sqlite: bool, counted: bool) -> Select[Any]:
    """Return a row per combination of the axes' values: the newest ids of that stream as a list, or their number.

    A condition that restricts nothing is left out: without any, the rows are counted in the smallest index.
    """
    tables = {name: _table(name, on_sqlite=on_sqlite) for name in axes}
    rows = (
        select(Operation.id)
        .where(*(AXES[name][0] == table.c.value for name, table in tables.items()))
        .where(*(CONDITIONS[name] for name in conditions))
        .limit(bindparam("most"))
    )
    if not counted:
        rows = rows.order_by(Operation.id.desc())
    if not axes:
        return select(func.count()).select_from(rows.subquery()) if counted else rows
    stream = rows.correlate(*tables.values()).subquery()
    collect = func.json_group_array if on_sqlite else func.array_agg
    answer = func.count(stream.c.id) if counted else collect(stream.c.id)
    return select(select(answer).scalar_subquery()).select_from(_all_combinations(list(tables.values())))


def _table(name: str, *, on_sqlite: bool) -> NamedFromClause:
    """Return the wanted values of a column as a table, so that the statement is the same however many there are."""
    if on_sqlite:
        return func.json_each(bindparam(f"wanted_{name}", type_=Text)).table_valued("value", name=f"axis_{name}")
    wanted: Cast[Any] = cast(bindparam(f"wanted_{name}"), ARRAY(AXES[name][1]))
    return func.unnest(wanted).table_valued("value", name=f"axis_{name}").render_derived()


def _all_combinations(tables: list[NamedFromClause]) -> FromClause:
    first, *others = tables
    return reduce(lambda left, right: left.join(right, true()), others, first)


def known_kinds(session: Session) -> dict[str, str]:
    """Return the kinds in the record and their categories, by skipping through the index from kind to kind."""
    return {kind: category for kind, category in session.connection().execute(_KNOWN_KINDS) if kind is not None}


_leaps = select(func.min(Operation.kind).label("kind")).cte("leaps", recursive=True)
_next_kind = select(func.min(Operation.kind)).where(Operation.kind > _leaps.c.kind).scalar_subquery()
_all_leaps = _leaps.union_all(select(_next_kind).where(_leaps.c.kind.is_not(None)))
_KNOWN_KINDS = select(
    _all_leaps.c.kind,
    select(Operation.category).where(Operation.kind == _all_leaps.c.kind).limit(1).scalar_subquery(),
)
