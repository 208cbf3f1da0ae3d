"""Which schedules a caller may see, and which the caller may change."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from holdfast.access import rights
from holdfast.access.caller import Caller, forbidden
from holdfast.access.roles import Role
from holdfast.repositories import store as repositories
from holdfast.schedules import errors, store
from holdfast.schedules.models import Schedule
from holdfast.schedules.store import Target


@dataclass
class VisibleSchedules:
    """The parts of schedules that one caller may see."""

    session: Session
    visible: frozenset[int] | None
    """The repositories that the caller may see; None: all."""
    is_for_one: bool
    """Whether only one schedule is needed, so that only the repositories that it names are read."""
    _every: store.TargetsById | None = None
    _found: dict[str, Sequence[Target]] = field(default_factory=dict)

    @classmethod
    def of(cls, session: Session, caller: Caller) -> "VisibleSchedules":
        return cls(session, rights.visible_repositories(session, caller), is_for_one=False)

    @classmethod
    def of_one(cls, session: Session, caller: Caller) -> "VisibleSchedules":
        return cls(session, rights.visible_repositories(session, caller), is_for_one=True)

    def targets(self, schedule: Schedule) -> Sequence[Target]:
        """Return the current targets that the caller may see. Schedules with the same selection share one list."""
        chosen = repr((schedule.targets, schedule.exclude_repository_ids))
        if chosen not in self._found:
            every = self._targets(schedule)
            self._found[chosen] = (
                every if self.visible is None else [target for target in every if target.id in self.visible]
            )
        return self._found[chosen]

    def _targets(self, schedule: Schedule) -> list[Target]:
        if self.is_for_one:
            return store.targets_of(self.session, schedule)
        if self._every is None:
            self._every = store.every_target(self.session)
        return store.matching(schedule, self._every)

    def includes(self, repository_id: int) -> bool:
        return self.visible is None or repository_id in self.visible

    def sees(self, schedule: Schedule) -> bool:
        """Whether the caller may see the schedule: with a visible target, or if the caller sees all repositories."""
        return self.visible is None or bool(self.targets(schedule))


def require_seen(session: Session, seen: VisibleSchedules, schedule_id: int, *, even_deleted: bool = False) -> Schedule:
    """Return the schedule if the caller may see it. Raise NotFound."""
    schedule = (store.get_even_deleted if even_deleted else store.get)(session, schedule_id)
    if schedule is None or not seen.sees(schedule):
        raise errors.unknown(schedule_id)
    return schedule


def require_operator(session: Session, caller: Caller, schedule_id: int) -> Schedule:
    """Return the schedule, locked, if the caller is an operator of all its targets. Raise NotFound or Forbidden."""
    require_seen(session, VisibleSchedules.of_one(session, caller), schedule_id)
    schedule = store.lock(session, schedule_id)
    if schedule is None:
        raise errors.unknown(schedule_id)
    require_on_targets(session, caller, schedule)
    return schedule


def require_on_targets(session: Session, caller: Caller, schedule: Schedule) -> None:
    if is_operator_everywhere(caller):
        return
    ids = (schedule.targets or {}).get("repository_ids")
    existing = {target.id for target in store.all_targets(session, ids or ())}
    named = [each for each in ids or () if each in existing]
    if not named:  # selected by label, all of them, or only removed repositories
        raise forbidden(Role.OPERATOR)
    for repository_id in named:
        role = rights.repository_role(session, caller, repository_id)
        if role is None or role < Role.OPERATOR:
            raise forbidden(Role.OPERATOR)


def require_on_new_targets(session: Session, caller: Caller, schedule: Schedule) -> None:
    """Raise NotFound for a named repository that the caller may not see, Forbidden without the role operator."""
    ids = schedule.targets.get("repository_ids")
    if ids is None and not is_operator_everywhere(caller):
        raise forbidden(Role.OPERATOR)
    for repository_id in ids or ():
        repositories.require(session, caller, repository_id, Role.OPERATOR)
    for repository_id in schedule.exclude_repository_ids or ():
        repositories.require(session, caller, repository_id, Role.VIEWER)


def is_operator_everywhere(caller: Caller) -> bool:
    if caller.role is Role.ADMIN:
        return True
    everywhere = caller.all_repositories_role
    return everywhere is not None and min(everywhere, caller.role) >= Role.OPERATOR
