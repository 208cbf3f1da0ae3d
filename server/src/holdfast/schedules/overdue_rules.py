"""When scheduled work is overdue: a while after the longest gap between the schedule's due times."""

import threading
from collections.abc import Mapping
from typing import Any

from sqlalchemy import column, func, select, table
from sqlalchemy.orm import Session

from holdfast.repositories.models import Repository
from holdfast.repositories.overdue import OverdueAfter, OverdueRules
from holdfast.schedules.models import Schedule
from holdfast.schedules.running.thresholds import ScheduleCadence

CELLS = frozenset({"backup", "check", "prune", "compact", "restore_check", "mirror"})
"""Steps that are also cells of `/status`, under the same name."""

Cells = Mapping[str, OverdueAfter]


class ScheduleRules:
    """Rules from enabled schedules: the shortest if a repository has several, and `otherwise` if it has none."""

    def __init__(self, otherwise: OverdueRules) -> None:
        self._otherwise = otherwise
        self._guard = threading.Lock()
        self._seen: tuple[Any, ...] | None = None
        self._known: dict[int, Cells] = {}

    def of_all(self, session: Session) -> Mapping[int, Cells]:
        scheduled = self._scheduled(session)
        constant = self._otherwise.of_all(session)
        merged: dict[tuple[int, int], Cells] = {}
        found: dict[int, Cells] = {}
        for number, cells in constant.items():
            own = scheduled.get(number)
            if own is None:
                found[number] = cells
                continue
            both = id(cells), id(own)  # most repositories share both, so few are merged
            if both not in merged:
                merged[both] = {**cells, **own}
            found[number] = merged[both]
        return found

    def _scheduled(self, session: Session) -> Mapping[int, Cells]:
        """Return the rules, recomputed if a schedule, a repository or an agent's labels have changed."""
        seen = (*session.execute(_SCHEDULES_CHANGED).one(), *session.execute(_REPOSITORIES_CHANGED).one())
        seen = (*seen, *session.execute(_AGENTS_CHANGED).one())
        with self._guard:
            if seen != self._seen:
                self._known, self._seen = scheduled(session), seen
            return self._known


def scheduled(session: Session) -> dict[int, Cells]:
    """Return, for each repository targeted by an enabled schedule, when that schedule's work is overdue."""
    found = ScheduleCadence().of_all(session)
    return _shared(
        {
            number: {
                cell: OverdueAfter(threshold.seconds, threshold.schedule_id)
                for cell, threshold in cells.items()
                if cell in CELLS
            }
            for number, cells in found.items()
        }
    )


def _shared(found: Mapping[int, Cells]) -> dict[int, Cells]:
    """Return the same rules, with one shared object for all repositories whose rules are equal."""
    kept: dict[tuple[tuple[str, OverdueAfter], ...], Cells] = {}
    return {
        number: kept.setdefault(tuple(sorted(cells.items(), key=lambda one: one[0])), cells)
        for number, cells in found.items()
    }


_agents = table("agent_machines", column("updated_at"))
_SCHEDULES_CHANGED = select(func.count(), func.max(Schedule.updated_at), func.sum(Schedule.revision)).select_from(
    Schedule
)
_REPOSITORIES_CHANGED = select(func.count(), func.max(Repository.id), func.max(Repository.updated_at)).select_from(
    Repository
)
_AGENTS_CHANGED = select(func.count(), func.max(_agents.c.updated_at)).select_from(_agents)
