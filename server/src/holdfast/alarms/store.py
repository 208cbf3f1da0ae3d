"""All statements on alarms. No other module writes their state."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session

from holdfast.agents.models import AgentMachine
from holdfast.alarms.kind import Subject
from holdfast.alarms.models import Alarm, State, StorageDay
from holdfast.alarms.plan import Current, News
from holdfast.kit import cursor
from holdfast.machines.models import SshConnection
from holdfast.repositories.models import Repository
from holdfast.storage.bulk import flushed_connection
from holdfast.storage.inserts import conflict_aware_insert

KEPT = timedelta(days=90)
"""How long cleared alarms are kept."""
MEASURED_FOR = timedelta(days=30)
IDS_AT_ONCE = 500


# --- reading ----------------------------------------------------------------------------------------------------------


def get(session: Session, alarm_id: int) -> Alarm | None:
    found = session.get(Alarm, alarm_id) if 0 < alarm_id < 2**63 else None
    return None if found is None or found.state == State.WATCHED else found


def not_cleared(session: Session) -> dict[str, dict[str, Current]]:
    """Return open and watched alarms by kind and subject."""
    found: dict[str, dict[str, Current]] = {}
    for kind, *values in flushed_connection(session).execute(_NOT_CLEARED).all():
        alarm = Current._make(values)
        found.setdefault(kind, {})[alarm.subject] = alarm
    return found


def ids_of(session: Session, news: Iterable[News]) -> dict[tuple[str, str], int]:
    """Return the ids of newly added alarms by kind and subject."""
    by_kind: dict[str, list[str]] = {}
    for one in news:
        by_kind.setdefault(one.kind, []).append(one.subject.text)
    found: dict[tuple[str, str], int] = {}
    for kind, subjects in by_kind.items():
        for first in range(0, len(subjects), IDS_AT_ONCE):
            some = subjects[first : first + IDS_AT_ONCE]
            wanted = Alarm.kind == kind, Alarm.subject.in_(some), Alarm.state != State.CLEARED
            rows = session.execute(select(Alarm.id, Alarm.subject).where(*wanted))
            found |= {(kind, row.subject): row.id for row in rows}
    return found


def page(
    session: Session,
    *,
    visible: frozenset[int] | None,
    sees_all: bool,
    states: Sequence[str],
    severities: Sequence[str],
    repository_id: int | None,
    now: datetime,
    limit: int,
    after: str | None,
) -> tuple[list[Alarm], str | None]:
    """Return the alarms that the caller may see, newest first, and the cursor of the next page."""
    statement = select(Alarm).where(_in_states(states, now))
    if after:
        statement = statement.where(Alarm.id < int(cursor.decode(after, int)[0]))
    if severities:
        statement = statement.where(Alarm.severity.in_(severities))
    if repository_id is not None:
        statement = statement.where(Alarm.repository_id == repository_id)
    if not sees_all:
        statement = statement.where(Alarm.repository_id.in_(visible or ()) if visible is not None else _OF_REPOSITORY)
    found = list(session.scalars(statement.order_by(Alarm.id.desc()).limit(limit + 1)))
    following = cursor.encode(found[limit - 1].id) if len(found) > limit else None
    return found[:limit], following


def newest_open(
    session: Session, now: datetime, limit: int, visible: frozenset[int] | None = None, *, sees_all: bool = True
) -> list[Alarm]:
    """Return the open alarms that the caller may see, newest first."""
    wanted: dict[str, Any] = {"states": ("open",), "severities": (), "repository_id": None, "after": None}
    return page(session, visible=visible, sees_all=sees_all, now=now, limit=limit, **wanted)[0]


def _in_states(states: Sequence[str], now: datetime) -> Any:
    """A condition for these states. `acknowledged` means open with an acknowledgement that is still in force."""
    silent = and_(
        Alarm.acknowledged_by.is_not(None),
        or_(Alarm.acknowledged_until.is_(None), Alarm.acknowledged_until > now),
    )
    chosen = {
        "open": and_(Alarm.state == State.OPEN, ~silent),
        "acknowledged": and_(Alarm.state == State.OPEN, silent),
        "cleared": Alarm.state == State.CLEARED,
    }
    return or_(*(chosen[state] for state in states))


def names(session: Session, subjects: Iterable[Subject]) -> dict[Subject, str]:
    """Return the current names of the subjects that still exist."""
    found: dict[Subject, str] = {}
    by_type: dict[str, set[int]] = {}
    for subject in subjects:
        by_type.setdefault(subject.type, set()).add(subject.id)
    for subject_type, model in (("repository", Repository), ("agent", AgentMachine), ("ssh_machine", SshConnection)):
        ids = sorted(by_type.get(subject_type, ()))
        for first in range(0, len(ids), IDS_AT_ONCE):
            some = ids[first : first + IDS_AT_ONCE]
            rows = session.execute(select(model.id, model.name).where(model.id.in_(some)))
            found |= {Subject(subject_type, row.id): row.name for row in rows}
    return found


# --- changes ----------------------------------------------------------------------------------------------------------


def add(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Add alarms. Existing ones are left unchanged."""
    for first in range(0, len(rows), IDS_AT_ONCE):
        some = list(rows[first : first + IDS_AT_ONCE])
        session.execute(conflict_aware_insert(session, Alarm).values(some).on_conflict_do_nothing())


def change(session: Session, changes: Sequence[tuple[int, dict[str, Any]]]) -> None:
    for alarm_id, values in changes:
        statement = update(Alarm).where(Alarm.id == alarm_id, Alarm.state != State.CLEARED).values(**values)
        session.execute(statement.execution_options(synchronize_session=False))


def note_seen(session: Session, now: datetime) -> None:
    """Record that the evidence still confirms the open alarms, except those that are unknown or about to clear."""
    shown = Alarm.state == State.OPEN, Alarm.known, Alarm.clearing_since.is_(None), Alarm.seen_at < now
    session.execute(update(Alarm).where(*shown).values(seen_at=now).execution_options(synchronize_session=False))


def forget_watched(session: Session, ids: Sequence[int]) -> None:
    for first in range(0, len(ids), IDS_AT_ONCE):
        session.execute(
            delete(Alarm).where(Alarm.id.in_(ids[first : first + IDS_AT_ONCE]), Alarm.state == State.WATCHED)
        )


def tidy(session: Session, now: datetime) -> None:
    session.execute(delete(Alarm).where(Alarm.cleared_at < now - KEPT))
    session.execute(delete(StorageDay).where(StorageDay.day < (now - MEASURED_FOR).date()))


# --- measurements of storage ------------------------------------------------------------------------------------------


def keep_measurements(session: Session) -> None:
    """Record the latest storage measurement of each repository, unless it has already been recorded."""
    noted = exists().where(
        StorageDay.repository_id == Repository.id,
        StorageDay.day >= func.date(Repository.storage_seen_at),  # redundant, but lets the primary key find the row
        StorageDay.seen_at >= Repository.storage_seen_at,
    )
    measured = select(Repository.id, Repository.storage_seen_at, Repository.storage_free_bytes).where(
        Repository.storage_free_bytes.is_not(None), Repository.storage_seen_at.is_not(None), ~noted
    )
    rows = [
        {
            "repository_id": row.id,
            "day": row.storage_seen_at.date(),
            "seen_at": row.storage_seen_at,
            "free_bytes": row[2],
        }
        for row in session.execute(measured)
    ]
    for first in range(0, len(rows), IDS_AT_ONCE):
        statement = conflict_aware_insert(session, StorageDay).values(rows[first : first + IDS_AT_ONCE])
        values = {"seen_at": statement.excluded.seen_at, "free_bytes": statement.excluded.free_bytes}
        session.execute(statement.on_conflict_do_update(index_elements=["repository_id", "day"], set_=values))


_OF_REPOSITORY = Alarm.repository_id.is_not(None)
_NOT_CLEARED = select(
    Alarm.kind,
    Alarm.id,
    Alarm.subject,
    Alarm.severity,
    Alarm.state,
    Alarm.since,
    Alarm.known,
    Alarm.clearing_since,
    Alarm.evidence,
    Alarm.acknowledged_by,
    Alarm.acknowledged_until,
).where(Alarm.state.in_((State.WATCHED, State.OPEN)))
