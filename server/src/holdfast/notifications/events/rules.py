"""Decides which rules apply to an event."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.agents import labels
from holdfast.notifications.models import Destination, DestinationKind, Rule


@frozen
class Facts:
    """The properties by which rules judge an event or an incident."""

    type: str
    severity: int
    repository_id: int | None
    schedule_id: int | None
    labels: Mapping[str, str]


@frozen
class ActiveRules:
    """The rules and destinations that are enabled."""

    rules: Sequence[Rule]
    destinations: Sequence[Destination]

    def destinations_of(self, wanted: Sequence[int] | None) -> list[Destination]:
        return [each for each in self.destinations if wanted is None or each.id in wanted]


def read_active(session: Session) -> ActiveRules:
    rules = session.scalars(select(Rule).where(Rule.enabled).order_by(Rule.id)).all()
    enabled = select(Destination).where(Destination.enabled, Destination.kind != DestinationKind.PING)
    return ActiveRules(rules, session.scalars(enabled.order_by(Destination.id)).all())


def labels_of(session: Session, repository_id: int | None) -> Mapping[str, str]:
    return labels.of_repository(session, repository_id) if repository_id is not None else {}


def matches(rule: Rule, facts: Facts) -> bool:
    if facts.severity < rule.least_severity:
        return False
    if rule.events and not any(fnmatchcase(facts.type, pattern) for pattern in rule.events):
        return False
    return in_scope(rule.scope, facts.repository_id, facts.schedule_id, facts.labels)


def in_scope(
    scope: Mapping[str, Any], repository_id: int | None, schedule_id: int | None, labels: Mapping[str, str]
) -> bool:
    if scope.get("repository_ids"):
        return repository_id in scope["repository_ids"]
    if scope.get("schedule_ids"):
        return schedule_id in scope["schedule_ids"]
    if scope.get("labels"):
        return all(labels.get(name) == value for name, value in scope["labels"].items())
    return True
