"""When evidence counts as bad: general thresholds, and overrides per repository."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.alarms.models import AlarmOverride
from holdfast.kit.schema import Closed
from holdfast.operations import limits as kernel_settings

STORED_AS = "alarm_thresholds"

Hours = Annotated[float, Field(gt=0, le=87_600)]
Days = Annotated[float, Field(gt=0, le=3_650)]
Percent = Annotated[float, Field(ge=0, le=90)]
Kinds = Annotated[list[str], Field(max_length=50)]


class AlarmThresholds(Closed):
    """Thresholds for all repositories, agents and the service."""

    backup_overdue_hours: Hours | None = Field(
        None, description="Age of the last backup that raises the alarm; null: the threshold that /status uses."
    )
    check_overdue_days: Days | None = Field(None, description="Likewise for checks.")
    restore_check_overdue_days: Days | None = Field(
        None, description="Age of the last restore check that raises the alarm; null: the threshold that /status uses."
    )
    mirror_behind_days: Days | None = Field(
        None, description="Age of the last mirror sync that raises the alarm; null: the threshold that /status uses."
    )
    critical_factor: Annotated[float, Field(ge=1, le=1000)] = Field(
        3, description="Multiple of the threshold at which overdue alarms become critical."
    )
    storage_free_percent: Percent = Field(10, description="Free space below this raises the alarm.")
    storage_full_days: Days = Field(
        14, description="Storage expected to be full within this many days also raises the alarm."
    )
    key_export_days: Days = Field(
        7, description="Days until a repository whose key was never exported raises the alarm."
    )
    schedule_missing_days: Days = Field(7, description="Days without a schedule or a backup that raise the alarm.")
    agent_silent_hours: Hours = Field(24, description="How long an agent with a pending backup may be silent.")
    clock_skew_seconds: Annotated[float, Field(ge=10, le=86_400)] = Field(
        60, description="Clock difference between agent and service, lasting 10 minutes, that raises the alarm."
    )
    tick_late_minutes: Annotated[float, Field(ge=2, le=1440)] = Field(
        5, description="Minutes since the last schedule check that raise the alarm."
    )
    off: Kinds = Field(default_factory=list, description="Kinds of alarms turned off.")


class RepositoryThresholds(Closed):
    """Thresholds of one repository. Omitted ones use the general value."""

    backup_overdue_hours: Hours | None = None
    check_overdue_days: Days | None = None
    restore_check_overdue_days: Days | None = None
    mirror_behind_days: Days | None = None
    critical_factor: Annotated[float, Field(ge=1, le=1000)] | None = None
    storage_free_percent: Percent | None = None
    storage_full_days: Days | None = None
    key_export_days: Days | None = None
    schedule_missing_days: Days | None = None
    off: Kinds | None = Field(None, description="Kinds of alarms turned off for this repository.")


@frozen
class InForce:
    """All thresholds, resolved for each repository."""

    of_all: AlarmThresholds
    of_repositories: Mapping[int, AlarmThresholds] = field(default_factory=dict)

    def of(self, repository_id: int) -> AlarmThresholds:
        return self.of_repositories.get(repository_id, self.of_all)

    def least(self, name: str) -> float:
        """The smallest value of a threshold for any repository, which limits what a query has to examine."""
        return min(float(getattr(one, name)) for one in self.every())

    def most(self, name: str) -> float:
        return max(float(getattr(one, name)) for one in self.every())

    def every(self) -> Iterator[AlarmThresholds]:
        yield self.of_all
        yield from self.of_repositories.values()


def in_force(session: Session) -> InForce:
    of_all = AlarmThresholds(**(kernel_settings.get(session, STORED_AS) or {}))
    rows = session.execute(select(AlarmOverride.repository_id, AlarmOverride.thresholds))
    return InForce(of_all, {row.repository_id: of_all.model_copy(update=row.thresholds) for row in rows})


def overrides(session: Session) -> dict[int, RepositoryThresholds]:
    rows = session.execute(select(AlarmOverride.repository_id, AlarmOverride.thresholds))
    return {row.repository_id: RepositoryThresholds(**row.thresholds) for row in rows}


def put_for_all(session: Session, thresholds: AlarmThresholds) -> None:
    kernel_settings.put(session, STORED_AS, thresholds.model_dump())


def put_for_repository(session: Session, repository_id: int, thresholds: RepositoryThresholds | None) -> None:
    """Set the thresholds of a repository; None restores the general ones."""
    given: dict[str, Any] = thresholds.model_dump(exclude_none=True) if thresholds is not None else {}
    found = session.get(AlarmOverride, repository_id)
    if found is not None and not given:
        session.delete(found)
    elif found is not None:
        found.thresholds = given
    elif given:
        session.add(AlarmOverride(repository_id=repository_id, thresholds=given))
    session.flush()
