"""Routes for the first page of the web UI: whether everything can be restored, and what needs attention."""

from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fastapi import Depends, Query
from sqlalchemy.orm import Session

from holdfast.access import rights
from holdfast.access.caller import Caller, SignedIn
from holdfast.access.plans import has_feature
from holdfast.access.roles import Role
from holdfast.activity import evidence
from holdfast.activity.evidence_schemas import EvidencePage, OverviewAnswer
from holdfast.activity.overview import active_operations
from holdfast.activity.verdict import Verdict
from holdfast.api.dependencies import Reading, TheSettings
from holdfast.api.router import router
from holdfast.errors import Unprocessable
from holdfast.kit import clock
from holdfast.kit import cursor as cursors
from holdfast.kit.fields import PlainText
from holdfast.operations.present import ThePresenter
from holdfast.operations.routes import Cursor
from holdfast.operations.status import Status
from holdfast.repositories import store as repositories
from holdfast.repositories.overdue import OVERDUE_RULES, OverdueRules
from holdfast.settings import Settings

routes = router("/api/overview", "overview")


TheRules = Annotated[OverdueRules, Depends(OVERDUE_RULES)]
TOP = 20
MOST_ATTENTION = 50
ZoneName = Annotated[str, PlainText(1, 64), Query(description="Time zone that defines the days.")]


@routes.get("", summary="Get an overview: what can be restored and what needs attention")
def read_overview(
    caller: SignedIn,
    session: Reading,
    presenter: ThePresenter,
    settings: TheSettings,
    rules: TheRules,
    tz: ZoneName = "UTC",
) -> OverviewAnswer:
    """A repository counts as proven if its latest backup is recent and some of its files have been read back. Without
    evidence, it does not.
    """
    zone = _zone(tz)
    judgements = _judged(session, caller, settings, rules)
    visible = rights.visible_repositories(session, caller)
    active = active_operations(session, presenter, visible, is_admin=caller.role is Role.ADMIN)
    counts = evidence.counts(judgements)
    needs_somebody = counts["proven"] < len(judgements)
    return OverviewAnswer(
        judged_at=clock.now(),
        verdict="empty" if not judgements else "needs_you" if needs_somebody else "proven",
        counts=counts,
        archives=sum(one.repository.archive_count or 0 for one in judgements),
        newest_proof=evidence.newest_proof(session, judgements),
        data_age=evidence.data_age(judgements),
        attention=evidence.attention(judgements, MOST_ATTENTION),
        running=[one for one in active if one.status == Status.RUNNING],
        waiting=[one for one in active if one.status == Status.PENDING],
        repositories=evidence.rows(session, judgements[:TOP], zone),
    )


@routes.get("/repositories", summary="List the evidence for each repository")
def read_repositories(
    caller: SignedIn,
    session: Reading,
    settings: TheSettings,
    rules: TheRules,
    q: Annotated[str, PlainText(0, 200), Query(description="Part of the name.")] = "",
    state: Verdict | None = None,
    sort: Literal["need", "name", "size", "backup"] = "need",
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Cursor = None,
    tz: ZoneName = "UTC",
) -> EvidencePage:
    zone = _zone(tz)
    judgements = _judged(session, caller, settings, rules)
    named = [one for one in judgements if q.casefold() in one.repository.name.casefold()]
    wanted = [one for one in named if state is None or one.judged.verdict == state]
    match sort:
        case "name":
            wanted.sort(key=lambda one: one.repository.name.casefold())
        case "size":
            wanted.sort(key=lambda one: -(one.repository.unique_size or 0))
        case "backup":
            wanted.sort(key=lambda one: one.repository.last_backup.timestamp() if one.repository.last_backup else 0.0)
        case "need":
            pass
    first = int(cursors.decode(cursor, int)[0]) if cursor is not None else 0
    if first < 0:
        raise cursors.bad_cursor()
    shown = wanted[first : first + limit]
    return EvidencePage(
        repositories=evidence.rows(session, shown, zone),
        counts=evidence.counts(named),
        total=len(wanted),
        next_cursor=cursors.encode(first + limit) if first + limit < len(wanted) else None,
    )


def _judged(session: Session, caller: Caller, settings: Settings, rules: OverdueRules) -> list[evidence.Judgement]:
    visible = repositories.visible(session, rights.visible_repositories(session, caller))
    overdue = rules.of_all(session) if has_feature(settings, "overdue_flags") else {}
    return evidence.judge_all(session, visible, overdue, settings.reconcile_minutes)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Unprocessable("archives.unknown_timezone", "Unknown time zone.") from error
