"""Acknowledge alarms and change their thresholds."""

from datetime import datetime

from sqlalchemy.orm import Session

from holdfast.access import audit, rights
from holdfast.access.caller import Caller, forbidden
from holdfast.access.roles import Role
from holdfast.alarms import errors, present, store, thresholds
from holdfast.alarms.kind import Subject
from holdfast.alarms.kinds import BY_NAME
from holdfast.alarms.models import Alarm, State
from holdfast.alarms.plan import News
from holdfast.alarms.schemas import AlarmAcknowledgement, AlarmSettings, AlarmSettingsChange, RepositoryOverride
from holdfast.errors import Conflict, Unprocessable
from holdfast.operations import outbox
from holdfast.repositories import errors as repository_errors
from holdfast.repositories import store as repositories


def require(session: Session, caller: Caller, alarm_id: int, role: Role) -> Alarm:
    """Return the alarm if the caller may see it and has the role. Raise NotFound or Forbidden."""
    alarm = store.get(session, alarm_id)
    if alarm is None:
        raise errors.not_found(alarm_id)
    own = caller.role if alarm.repository_id is None else rights.repository_role(session, caller, alarm.repository_id)
    if own is None or (alarm.repository_id is None and own is not Role.ADMIN):
        raise errors.not_found(alarm_id)
    if own < role:
        raise forbidden(role)
    return alarm


def acknowledge(session: Session, caller: Caller, alarm_id: int, wanted: AlarmAcknowledgement, now: datetime) -> Alarm:
    """Silence an alarm until a given time, or until it gets worse. Raise Conflict if it has already cleared."""
    alarm = require(session, caller, alarm_id, Role.OPERATOR)
    if alarm.state == State.CLEARED:
        raise Conflict(
            "alarms.cleared", "The alarm has already cleared; there is nothing to acknowledge.", alarm_id=alarm_id
        )
    if wanted.until is not None and wanted.until <= now:
        raise Unprocessable("alarms.until_past", "`until` must be in the future; nothing was changed.")
    alarm.acknowledged_by = caller.username
    alarm.acknowledged_at = now
    alarm.acknowledged_until = wanted.until
    alarm.comment = wanted.comment
    _tell(session, alarm)
    details = {"kind": alarm.kind, "subject": alarm.subject}
    audit.note(session, caller, "alarm.acknowledged", "alarm", alarm.id, details)
    return alarm


def _tell(session: Session, alarm: Alarm) -> None:
    subject = Subject.parse(alarm.subject)
    name = store.names(session, [subject]).get(subject)
    since, reason = alarm.since, "acknowledged"
    news = News("alarm.changed", alarm.kind, subject, alarm.severity, alarm.evidence, since, reason, alarm.id)
    payload = present.news_payload(BY_NAME.get(alarm.kind), news, name, alarm.id)
    outbox.publish(session, "alarm.changed", payload, repository_id=alarm.repository_id)


def settings(session: Session) -> AlarmSettings:
    own = sorted(thresholds.overrides(session).items())
    return AlarmSettings(
        thresholds=thresholds.in_force(session).of_all,
        repositories=[RepositoryOverride(repository_id=number, thresholds=one) for number, one in own],
        kinds=list(BY_NAME),
    )


def change_settings(session: Session, caller: Caller, wanted: AlarmSettingsChange) -> AlarmSettings:
    _require_known_kinds(wanted)
    if wanted.thresholds is not None:
        thresholds.put_for_all(session, wanted.thresholds)
    for one in wanted.repositories:
        if repositories.get(session, one.repository_id) is None:
            raise repository_errors.unknown(one.repository_id)
        thresholds.put_for_repository(session, one.repository_id, one.thresholds)
    audit.record(
        session,
        actor=caller,
        action="alarm.settings_changed",
        details={"repositories": [one.repository_id for one in wanted.repositories][:50]},
    )
    session.flush()
    return settings(session)


def _require_known_kinds(wanted: AlarmSettingsChange) -> None:
    off = set(wanted.thresholds.off if wanted.thresholds else ())
    for one in wanted.repositories:
        off |= set((one.thresholds.off if one.thresholds else None) or ())
    if unknown := sorted(off - set(BY_NAME)):
        raise Unprocessable(
            "alarms.unknown_kind",
            "`off` contains an unknown kind of alarm; nothing was changed.",
            kind=unknown[0],
        )
