"""The prunes of a simulation, computed on arrays."""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from backup_engine.requests import RetentionPolicy
from backup_engine.retention import ENGINE_2, KEEP_LAST, RULES, Aged
from holdfast.archives.retention.simulate import KeptArchives, cut_off

Numbers = NDArray[np.intp]


class PruneSimulation:
    """The current archives and future backups, and which of them exist at a given time.

    Two years have some hundred prunes of some thousand archives each. `backup_engine.retention.kept` applies the same
    rules to one prune; this class applies them to whole arrays, in which an archive is a number: 0 is the newest of
    all.
    """

    def __init__(
        self,
        archives: Sequence[Aged],
        coming: Sequence[Aged],
        policy: RetentionPolicy,
        major: int,
        spared: Collection[int],
    ) -> None:
        every = [*coming, *archives]
        places = sorted(range(len(every)), key=lambda place: every[place].start, reverse=True)
        self._every = [every[place] for place in places]
        self._places = [place - len(coming) for place in places]
        """Position among the current archives; negative for future backups."""
        self._numbers = np.empty(len(every), np.intp)
        self._numbers[places] = np.arange(len(every))
        self._policy = policy
        self._rules = list(self._active(major))
        self._oldest_by_last_rule_alone = major == ENGINE_2
        self._is_spared = np.zeros(len(every), np.bool_)
        self._is_spared[self._numbers[[place + len(coming) for place in spared]]] = True
        self.there = np.sort(self._numbers[len(coming) :])

    def _active(self, major: int) -> Iterator[tuple[Numbers, int]]:
        """Yield, for each rule of the policy, the period of each archive and how many periods count."""
        for number, (name, _) in enumerate(RULES):
            if count := getattr(self._policy, name):
                if major == ENGINE_2 and name == KEEP_LAST:
                    yield np.arange(len(self._every)), count
                else:
                    known: dict[tuple[int, ...], int] = {}
                    periods = (known.setdefault(one.periods[number], len(known)) for one in self._every)
                    yield np.fromiter(periods, np.intp, len(self._every)), count

    def add(self, coming: Sequence[int]) -> None:
        """Add backups that have been made."""
        self.there = np.sort(np.concatenate([self._numbers[list(coming)], self.there]))

    def prune(self, now: datetime) -> None:
        there = self.there
        stays = np.zeros(len(there), np.bool_)
        since = cut_off(self._policy, now)
        if since is not None:
            younger = bisect_left(self._every, True, key=lambda archive: archive.start <= since)
            stays |= there < younger
        for place, (periods, count) in enumerate(self._rules, 1):
            period = periods[there]
            is_newest = np.concatenate([[True], period[1:] != period[:-1]])
            chosen = np.flatnonzero(is_newest & ~stays)[:count]
            stays[chosen] = True
            if len(chosen) < count and (place == len(self._rules) or not self._oldest_by_last_rule_alone):
                stays[-1] = True
        self.there = there[stays | self._is_spared[there]]

    def starts(self) -> tuple[datetime, ...]:
        """Return the start times of the existing archives, newest first."""
        return tuple(self._every[number].start for number in self.there)

    def kept_on(self) -> KeptArchives:
        there = [(self._places[number], self._every[number].start) for number in self.there]
        return KeptArchives(
            tuple(place for place, _ in there if place >= 0),
            tuple(start for place, start in reversed(there) if place < 0),
        )
