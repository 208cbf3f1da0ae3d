"""/api/audit: the audit trail, newest first."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Query
from fastapi.responses import StreamingResponse
from sqlalchemy import ColumnElement, select
from starlette.concurrency import run_in_threadpool

from holdfast.access.caller import AdminOnly
from holdfast.access.models import AuditEntry
from holdfast.access.schemas import AuditFilter, AuditItem, AuditPage
from holdfast.api.answers import shape
from holdfast.api.dependencies import Reading, TheDatabase
from holdfast.api.router import router
from holdfast.kit import cursor as cursors
from holdfast.kit.fields import Moment, PageLimit, PlainText
from holdfast.storage.session import Database

audit = router("/api/audit", "Audit")

EXPORTED_AT_ONCE = 500
"""Number of entries that an export reads into memory at a time."""

Word = Annotated[str, PlainText(1, 64)]
Conditions = list[ColumnElement[bool]]


async def wanted_entries(
    since: Annotated[Moment | None, Query(description="Only entries at or after this time.")] = None,
    until: Annotated[Moment | None, Query(description="Before this time.")] = None,
    actor: Annotated[Word | None, Query(description="User name.")] = None,
    action: Annotated[Word | None, Query(description="For example auth.login.")] = None,
    object_type: Annotated[Word | None, Query(description="Type of object, for example repository.")] = None,
    object_id: Annotated[Annotated[str, PlainText(1, 200)] | None, Query(description="Id of the object.")] = None,
    outcome: Annotated[Word | None, Query(description="For example ok or refused.")] = None,
) -> Conditions:
    return conditions_of(
        AuditFilter(
            since=since,
            until=until,
            actor=actor,
            action=action,
            object_type=object_type,
            object_id=object_id,
            outcome=outcome,
        )
    )


def conditions_of(wanted: AuditFilter) -> Conditions:
    equal = wanted.model_dump(exclude={"since", "until"}, exclude_none=True)
    conditions = [getattr(AuditEntry, name) == value for name, value in equal.items()]
    if wanted.since is not None:
        conditions.append(AuditEntry.at >= wanted.since)
    if wanted.until is not None:
        conditions.append(AuditEntry.at < wanted.until)
    return conditions


Wanted = Annotated[Conditions, Depends(wanted_entries)]


@audit.get("", summary="List audit entries: what happened, who did it and from where")
def list_entries(
    _caller: AdminOnly,
    session: Reading,
    wanted: Wanted,
    limit: PageLimit = 100,
    cursor: Annotated[Annotated[str, PlainText(1, 200)] | None, Query()] = None,
) -> AuditPage:
    if cursor is not None:
        (before,) = cursors.decode(cursor, int)
        wanted = [*wanted, AuditEntry.id < before]
    rows = list(session.scalars(select(AuditEntry).where(*wanted).order_by(AuditEntry.id.desc()).limit(limit + 1)))
    next_cursor = cursors.encode(rows[limit - 1].id) if len(rows) > limit else None
    return AuditPage(entries=[AuditItem.of(row) for row in rows[:limit]], next_cursor=next_cursor)


@audit.get(
    "/export",
    summary="Export audit entries as NDJSON",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "One entry per line, newest first.",
            "content": {"application/x-ndjson": {"schema": shape(AuditItem)}},
        }
    },
)
async def export_entries(_caller: AdminOnly, database: TheDatabase, wanted: Wanted) -> StreamingResponse:
    """All entries that match, with the filters of `GET /api/audit`. Entries added meanwhile are not included."""
    return exported(database, wanted)


def exported(database: Database, wanted: Conditions) -> StreamingResponse:
    headers = {"Cache-Control": "no-store", "Content-Disposition": 'attachment; filename="audit.ndjson"'}
    return StreamingResponse(_exported(database, wanted), media_type="application/x-ndjson", headers=headers)


async def _exported(database: Database, wanted: Conditions) -> AsyncIterator[str]:
    """Yield the lines a few hundred at a time, so that a slow client occupies neither a thread nor a transaction."""
    before: int | None = None
    while True:
        lines, before = await run_in_threadpool(_lines, database, wanted, before)
        if lines:
            yield lines
        if before is None:
            return


def _lines(database: Database, wanted: Conditions, before: int | None) -> tuple[str, int | None]:
    """Return the next lines and the id before which to continue; that id is None after the last lines."""
    statement = select(AuditEntry).where(*wanted).order_by(AuditEntry.id.desc()).limit(EXPORTED_AT_ONCE)
    if before is not None:
        statement = statement.where(AuditEntry.id < before)
    with database.reading() as session:
        rows = list(session.scalars(statement))
    # ASCII only: some line readers also split at Unicode line separators.
    text = "".join(f"{AuditItem.of(row).model_dump_json(ensure_ascii=True)}\n" for row in rows)
    return text, rows[-1].id if len(rows) == EXPORTED_AT_ONCE else None
