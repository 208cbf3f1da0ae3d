"""Present alarms as responses and as events."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from holdfast.alarms import store
from holdfast.alarms.kind import AlarmKind, Subject
from holdfast.alarms.kinds import BY_NAME
from holdfast.alarms.models import Alarm, State
from holdfast.alarms.plan import News
from holdfast.alarms.schemas import AlarmItem, AlarmState, AlarmSubject
from holdfast.kit import clock
from holdfast.kit.text import printable

MOST_MESSAGES = 100


def items(session: Session, alarms: Sequence[Alarm], now: datetime) -> list[AlarmItem]:
    subjects = {alarm.id: Subject.parse(alarm.subject) for alarm in alarms}
    names = store.names(session, subjects.values())
    return [_item(alarm, subjects[alarm.id], names.get(subjects[alarm.id]), now) for alarm in alarms]


def open_messages(session: Session) -> list[str]:
    """The messages of all open alarms, newest first."""
    now = clock.now()
    return [item.message for item in items(session, store.newest_open(session, now, MOST_MESSAGES), now)]


def _item(alarm: Alarm, subject: Subject, name: str | None, now: datetime) -> AlarmItem:
    return AlarmItem(
        id=alarm.id,
        kind=alarm.kind,
        severity=alarm.severity,
        state=state_of(alarm, now),
        subject=AlarmSubject(type=subject.type, id=subject.id, name=name),
        repository_id=alarm.repository_id,
        since=alarm.since,
        seen_at=alarm.seen_at,
        evidence_known=alarm.known,
        cleared_at=alarm.cleared_at,
        evidence=alarm.evidence,
        message=message_of(BY_NAME.get(alarm.kind), subject, name, alarm.evidence),
        acknowledged_by=alarm.acknowledged_by,
        acknowledged_at=alarm.acknowledged_at,
        acknowledged_until=alarm.acknowledged_until,
        comment=alarm.comment,
    )


def state_of(alarm: Alarm, now: datetime) -> AlarmState:
    if alarm.state == State.CLEARED:
        return "cleared"
    silent = alarm.acknowledged_by is not None and (alarm.acknowledged_until is None or alarm.acknowledged_until > now)
    return "acknowledged" if silent else "open"


def message_of(kind: AlarmKind | None, subject: Subject, name: str | None, evidence: Mapping[str, Any]) -> str:
    """The message for users. The name is untrusted, so it is made printable and stays on one line."""
    shown = printable(name) if name is not None else f"{subject.type} {subject.id}"
    return kind.message(shown, evidence) if kind is not None else f"{shown}: an alarm of an unknown kind."


def news_payload(kind: AlarmKind | None, news: News, name: str | None, alarm_id: int) -> dict[str, Any]:
    """The outbox payload for a change."""
    return {
        "id": alarm_id,
        "kind": news.kind,
        "severity": news.severity,
        "subject": {"type": news.subject.type, "id": news.subject.id, "name": name},
        "since": news.since.isoformat(),
        "message": message_of(kind, news.subject, name, news.evidence),
        "evidence": dict(news.evidence),
        **({"reason": news.reason} if news.reason else {}),
    }
