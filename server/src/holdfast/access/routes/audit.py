"""/api/audit: the audit trail, newest first."""

from typing import Annotated

from fastapi import Query
from sqlalchemy import select

from holdfast.access.caller import AdminOnly
from holdfast.access.models import AuditEntry
from holdfast.access.schemas import AuditItem, AuditPage
from holdfast.api.dependencies import Reading
from holdfast.api.router import router
from holdfast.kit import cursor as cursors
from holdfast.kit.fields import Moment, PlainText

audit = router("/api/audit", "Audit")


@audit.get("", summary="The audit trail: what happened, who did it and from where")
def list_entries(
    _caller: AdminOnly,
    session: Reading,
    since: Annotated[Moment | None, Query(description="Not before this time.")] = None,
    actor: Annotated[Annotated[str, PlainText(1, 64)] | None, Query(description="User name.")] = None,
    action: Annotated[Annotated[str, PlainText(1, 64)] | None, Query(description="For example auth.login.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    cursor: Annotated[Annotated[str, PlainText(1, 200)] | None, Query()] = None,
) -> AuditPage:
    wanted = select(AuditEntry).order_by(AuditEntry.id.desc()).limit(limit + 1)
    if since is not None:
        wanted = wanted.where(AuditEntry.at >= since)
    if actor is not None:
        wanted = wanted.where(AuditEntry.actor == actor)
    if action is not None:
        wanted = wanted.where(AuditEntry.action == action)
    if cursor is not None:
        (before,) = cursors.decode(cursor, int)
        wanted = wanted.where(AuditEntry.id < before)
    rows = list(session.execute(wanted).scalars())
    next_cursor = cursors.encode(rows[limit - 1].id) if len(rows) > limit else None
    return AuditPage(entries=[AuditItem.of(row) for row in rows[:limit]], next_cursor=next_cursor)
