"""`service_not_started`: a backup stopped a service that cannot be started again."""

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import String, cast, select

from backup_protocol import AgentStatus
from holdfast.agents.models import AgentMachine
from holdfast.alarms.kind import THE_SERVICE, AlarmKind, EvaluationContext, Finding, Subject
from holdfast.alarms.models import Severity
from holdfast.operations import limits

STORED = "services_not_started"
"""Written by the process that starts services on this machine and by ssh; agents report their own."""
SSH = "ssh:"
_AGENTS = select(AgentMachine.id, AgentMachine.unstarted_services).where(
    AgentMachine.status != AgentStatus.REVOKED, cast(AgentMachine.unstarted_services, String) != "[]"
)


def find(context: EvaluationContext) -> Iterator[Finding]:
    by_subject: dict[Subject, list[Mapping[str, Any]]] = {}
    for service in limits.get(context.session, STORED) or ():
        by_subject.setdefault(_subject(str(service.get("place"))), []).append(service)
    for row in context.session.execute(_AGENTS):
        if row.unstarted_services:
            by_subject[Subject("agent", row.id)] = row.unstarted_services
    for subject, services in by_subject.items():
        evidence = {"services": [str(one["name"]) for one in services], "error": str(services[0].get("error"))}
        yield Finding(subject, Severity.CRITICAL, evidence)


def _subject(place: str) -> Subject:
    number = place.removeprefix(SSH)
    return Subject("ssh_machine", int(number)) if place.startswith(SSH) and number.isdigit() else THE_SERVICE


def message(name: str, evidence: Mapping[str, Any]) -> str:
    services = ", ".join(map(str, evidence.get("services") or ()))
    where = "the machine of Holdfast itself" if name.startswith("service ") else name
    return (
        f"A backup stopped {services} on {where}, and restarting failed: {evidence.get('error')} Retrying until it "
        f"starts."
    )


KIND = AlarmKind("service_not_started", find, message)
