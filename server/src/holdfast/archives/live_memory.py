"""Answers of engines that are still true: each with a proof that its repository is as it was (`repository_state`)."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from backup_engine.command import Command
from backup_engine.detect import EngineProgram
from backup_engine.frozen import frozen
from backup_engine.interface import Engine
from backup_engine.repository_state import RepositoryPlace, RepositoryState, place_of, state_of
from backup_engine.requests import RepositoryLocation
from holdfast.kit.memory import memory_of
from holdfast.repositories.models import Repository

MOST_BYTES = 16 * 1024 * 1024
MOST_BYTES_OF_ONE = MOST_BYTES // 4
BYTES_BESIDE = 512
"""Of an answer's place in the table."""

Words = tuple[Hashable, ...]
"""What is asked of a repository."""
Request = Callable[[Engine, RepositoryLocation], Command]


class Before:
    """A repository as it is before its engine runs."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.program: EngineProgram | None = None
        self.place: RepositoryPlace | None = None
        self.state: RepositoryState | None = None

    def looking(self, request: Request) -> Request:
        """The request of an engine, which is made right before it runs."""

        def looked(engine: Engine, location: RepositoryLocation) -> Command:
            command = request(engine, location)
            if not self.repository.has_keyfile:  # its key is in a file of which no state tells anything
                self.program, self.place = engine.program, place_of(command)
                self.state = state_of(self.place) if self.place is not None else None
            return command

        return looked


@frozen
class _Known:
    given: object
    place: RepositoryPlace
    state: RepositoryState
    answer: Any
    size: int


class LiveMemory:
    """For any thread. Answers that were used longest ago make room for new ones."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._known: OrderedDict[tuple[int, Words], _Known] = OrderedDict()
        self._bytes = 0

    def has(self, repository_id: int, words: Words) -> bool:
        """Whether there is an answer, true or no longer."""
        return (repository_id, words) in self._known

    def answer(self, words: Words, repository: Repository, program: EngineProgram, given: object) -> Any:
        """The answer, if all that it was made from is still the same; else None."""
        key = repository.id, words
        known = self._known.get(key)
        if known is None:
            return None
        if known.given != (_row(repository), program, given) or state_of(known.place) != known.state:
            self._remove(key, known)
            return None
        with self._guard:
            if key in self._known:
                self._known.move_to_end(key)
        return known.answer

    def keep(self, words: Words, before: Before, given: object, answer: object) -> None:
        """Remember an engine's answer, if the repository was the same before and after the engine ran.

        `given` is what the answer follows from beside the repository, its row and its engine.
        """
        if before.place is None or before.state is None or not before.state.is_settled:
            return
        key = before.repository.id, words
        made_of = _row(before.repository), before.program, given
        size = memory_of((key, made_of, before.place, before.state, answer)) + BYTES_BESIDE
        if size > MOST_BYTES_OF_ONE or state_of(before.place) != before.state:
            return
        known = _Known(made_of, before.place, before.state, answer, size)
        with self._guard:
            if (older := self._known.pop(key, None)) is not None:
                self._bytes -= older.size
            self._known[key] = known
            self._bytes += known.size
            while self._bytes > MOST_BYTES:
                self._bytes -= self._known.popitem(last=False)[1].size

    def forget(self, repository_id: int) -> None:
        with self._guard:
            for key in [key for key in self._known if key[0] == repository_id]:
                self._bytes -= self._known.pop(key).size

    def _remove(self, key: tuple[int, Words], known: _Known) -> None:
        with self._guard:
            if self._known.get(key) is known:
                self._bytes -= self._known.pop(key).size


def _row(repository: Repository) -> list[object]:
    """All of it: whatever changes in the row of a repository, its engine is asked again."""
    return [getattr(repository, column.key) for column in Repository.__mapper__.column_attrs]
