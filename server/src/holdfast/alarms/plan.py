"""How new evidence changes alarms. A pure function, so that it can be tested against a model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from holdfast.alarms.kind import AlarmKind, Finding, Subject
from holdfast.alarms.models import Severity, State

Topic = Literal["alarm.raised", "alarm.changed", "alarm.cleared"]
NOT_ACKNOWLEDGED = {"acknowledged_by": None, "acknowledged_at": None, "acknowledged_until": None, "comment": None}


class Current(NamedTuple):
    """An alarm that is open or watched."""

    id: int
    subject: str
    severity: str
    state: str
    since: datetime
    known: bool
    clearing_since: datetime | None
    evidence: Mapping[str, Any]
    acknowledged_by: str | None
    acknowledged_until: datetime | None


class News(NamedTuple):
    """A change to report to subscribers. `id` is None for an alarm that has not been stored yet."""

    topic: Topic
    kind: str
    subject: Subject
    severity: str
    evidence: Mapping[str, Any]
    since: datetime
    reason: str | None = None
    id: int | None = None


@dataclass(slots=True)
class Plan:
    """The changes that one round makes."""

    added: list[dict[str, Any]] = field(default_factory=list)
    changed: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)
    """Watched alarms that ended before being raised."""
    news: list[News] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.changed or self.forgotten or self.news)


def plan(kind: AlarmKind, current: Mapping[str, Current], findings: Iterable[Finding], now: datetime) -> Plan:
    """Return the changes that the current evidence makes to the alarms of a kind."""
    planned = Plan()
    judged: set[str] = set()
    for finding in findings:
        subject = finding.subject.text
        if subject in judged:
            continue
        judged.add(subject)
        alarm = current.get(subject)
        if finding.severity is None:
            if alarm is not None:
                _hold(planned, alarm, finding)
        elif alarm is None:
            _begin(planned, kind, finding, finding.severity, now)
        elif alarm.state == State.WATCHED:
            _go_on_watching(planned, kind, alarm, finding, finding.severity, now)
        else:
            _go_on(planned, kind, alarm, finding, finding.severity, now)
    for subject, alarm in current.items():
        if subject not in judged:
            _end(planned, kind, alarm, now)
    return planned


def _begin(planned: Plan, kind: AlarmKind, finding: Finding, severity: Severity, now: datetime) -> None:
    opens = not kind.raise_after
    planned.added.append(
        {
            "kind": kind.name,
            "subject": finding.subject.text,
            "repository_id": finding.subject.repository_id,
            "severity": str(severity),
            "state": str(State.OPEN if opens else State.WATCHED),
            "since": now,
            "seen_at": now,
            "known": True,
            "evidence": dict(finding.evidence),
        }
    )
    if opens:
        planned.news.append(
            News("alarm.raised", kind.name, finding.subject, str(severity), finding.evidence, since=now)
        )


def _go_on_watching(
    planned: Plan, kind: AlarmKind, alarm: Current, finding: Finding, severity: Severity, now: datetime
) -> None:
    if now - alarm.since < kind.raise_after:
        return
    values = {"state": str(State.OPEN), "severity": str(severity), "evidence": dict(finding.evidence), "seen_at": now}
    planned.changed.append((alarm.id, values))
    planned.news.append(
        News("alarm.raised", kind.name, finding.subject, str(severity), finding.evidence, alarm.since, id=alarm.id)
    )


def _go_on(planned: Plan, kind: AlarmKind, alarm: Current, finding: Finding, severity: Severity, now: datetime) -> None:
    values: dict[str, Any] = {}
    if not alarm.known:
        values["known"] = True
    if alarm.clearing_since is not None:
        values["clearing_since"] = None
    if alarm.evidence != finding.evidence:
        values["evidence"] = dict(finding.evidence)
    reason = None
    if alarm.severity != severity:
        values["severity"] = str(severity)
        reason = "worse" if severity.rank > Severity(alarm.severity).rank else "better"
    if alarm.acknowledged_by is not None:
        if reason == "worse":
            values |= NOT_ACKNOWLEDGED
        elif alarm.acknowledged_until is not None and alarm.acknowledged_until <= now:
            values |= NOT_ACKNOWLEDGED
            reason = reason or "acknowledgement_ended"
        else:
            reason = None
    if values:
        planned.changed.append((alarm.id, values))
    if reason is not None:
        planned.news.append(
            News(
                "alarm.changed",
                kind.name,
                finding.subject,
                str(severity),
                finding.evidence,
                alarm.since,
                reason,
                alarm.id,
            )
        )


def _hold(planned: Plan, alarm: Current, finding: Finding) -> None:
    """Handle evidence that is neither bad nor good: an open alarm stays open, and a watched one is dropped."""
    if alarm.state == State.WATCHED:
        planned.forgotten.append(alarm.id)
        return
    values: dict[str, Any] = {}
    if alarm.known != finding.known:
        values["known"] = finding.known
    if alarm.clearing_since is not None:
        values["clearing_since"] = None
    if values:
        planned.changed.append((alarm.id, values))


def _end(planned: Plan, kind: AlarmKind, alarm: Current, now: datetime) -> None:
    if alarm.state == State.WATCHED:
        planned.forgotten.append(alarm.id)
        return
    since = alarm.clearing_since or now
    if now - since < kind.clear_after:
        if alarm.clearing_since is None:
            planned.changed.append((alarm.id, {"clearing_since": now, "known": True}))
        return
    planned.changed.append((alarm.id, {"state": str(State.CLEARED), "cleared_at": now, "known": True}))
    subject = Subject.parse(alarm.subject)
    planned.news.append(
        News("alarm.cleared", kind.name, subject, alarm.severity, alarm.evidence, alarm.since, id=alarm.id)
    )
