"""Remember engine answers that are still valid, each with a proof that the repository is unchanged
(`repository_state`).
"""

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
"""Memory per answer for its entry in the table."""

Question = tuple[Hashable, ...]
"""The question to a repository."""
Request = Callable[[Engine, RepositoryLocation], Command]


class StateBefore:
    """The state of a repository before its engine runs."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.program: EngineProgram | None = None
        self.place: RepositoryPlace | None = None
        self.state: RepositoryState | None = None

    def recording(self, request: Request) -> Request:
        """Wrap the request so that the state is recorded when the command is made, right before the engine runs."""

        def recorded(engine: Engine, location: RepositoryLocation) -> Command:
            command = request(engine, location)
            if not self.repository.has_keyfile:  # a keyfile is outside the repository, so no state covers it
                self.program, self.place = engine.program, place_of(command)
                self.state = state_of(self.place) if self.place is not None else None
            return command

        return recorded


@frozen
class _Entry:
    given: object
    place: RepositoryPlace
    state: RepositoryState
    answer: Any
    size: int


class LiveAnswerCache:
    """Safe for use from many threads. The least recently used answers make room for new ones."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._known: OrderedDict[tuple[int, Question], _Entry] = OrderedDict()
        self._bytes = 0

    def has(self, repository_id: int, question: Question) -> bool:
        """Return whether an answer is remembered, valid or not."""
        return (repository_id, question) in self._known

    def answer(self, question: Question, repository: Repository, program: EngineProgram, given: object) -> Any:
        """Return the answer if everything it was made from is unchanged; else None."""
        key = repository.id, question
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

    def keep(self, question: Question, before: StateBefore, given: object, answer: object) -> None:
        """Remember an engine's answer if the repository did not change while the engine ran.

        `given` is what else the answer depends on, besides the repository, its row and its engine.
        """
        if before.place is None or before.state is None or not before.state.is_settled:
            return
        key = before.repository.id, question
        made_of = _row(before.repository), before.program, given
        size = memory_of((key, made_of, before.place, before.state, answer)) + BYTES_BESIDE
        if size > MOST_BYTES_OF_ONE or state_of(before.place) != before.state:
            return
        known = _Entry(made_of, before.place, before.state, answer, size)
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

    def _remove(self, key: tuple[int, Question], known: _Entry) -> None:
        with self._guard:
            if self._known.get(key) is known:
                self._bytes -= self._known.pop(key).size


def _row(repository: Repository) -> list[object]:
    """Return all columns: after any change in a repository's row, the engine is asked again."""
    return [getattr(repository, column.key) for column in Repository.__mapper__.column_attrs]
