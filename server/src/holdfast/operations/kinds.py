"""An operation kind: a single value with everything the kernel needs to know about it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from fastapi import Request
from pydantic import BaseModel
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from backup_jobs.host import Interrupted
from holdfast.access.caller import Caller
from holdfast.api.parts import Part
from holdfast.operations.context import Context
from holdfast.operations.job_work import JobWork
from holdfast.operations.locks import Access, lock_mode
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.operations.status import LockMode, Status
from holdfast.operations.step_rules import StepRules


class Effect(StrEnum):
    """What a successful operation changed; listeners subscribe to it."""

    ARCHIVES_CHANGED = "archives_changed"


CHANGES_ARCHIVES = frozenset({Effect.ARCHIVES_CHANGED})


Run = Callable[[Context], Outcome | TryAgain]
OnInterrupted = Callable[[Context, Interrupted], Outcome | TryAgain]


Retry = Callable[[Session, Caller, "Kind", Operation], Operation]
"""Given the caller and an operation that did not succeed, queue the same work again under the caller's current rights.
"""


def retry_when_interrupted(context: Context, interrupted: Interrupted) -> TryAgain:
    """Retry; for work that can simply be repeated."""
    del context
    return TryAgain("operations.interrupted", interrupted.sentence())


def failed_when_interrupted(context: Context, interrupted: Interrupted) -> Outcome:
    """Fail; for work that must not be repeated automatically."""
    del context
    return Outcome(Status.FAILED, "operations.interrupted", interrupted.sentence())


def nothing_more(operation: Operation) -> dict[str, Any]:
    del operation
    return {}


def from_result(*names: str) -> Callable[[Operation], dict[str, Any]]:
    """Return a presenter that shows these fields of the result in the kind's own block."""
    return lambda operation: {name: (operation.result or {}).get(name) for name in names}


@frozen
class Kind:
    name: str
    category: str
    run: Run
    params: type[BaseModel]
    on_interrupted: OnInterrupted
    access: Access | None = Access.CHANGE
    """How it accesses the repository, which decides how it holds the lane (see `locks`). None: it holds no lane."""
    activity_word: str | None = None
    limit_group: str | None = None
    lock_key: str | None = None
    """A lane other than the repository's, such as the one shared by all package installations."""
    effects: frozenset[Effect] = frozenset()
    present: Callable[[Operation], dict[str, Any]] = nothing_more
    """Builds the kind's own block in the details of an operation."""
    agent: JobWork | None = None
    """How an agent executes it; None if only this service can execute the kind."""
    step_rules: StepRules | None = None
    """The kind's rules as a step of a schedule."""
    retry: "Retry | None" = None
    """Retries it; None for a kind that needs a new start, so that a person sees what it is about to do."""

    @property
    def lock(self) -> LockMode | None:
        """How it holds the lane of a repository whose readers may share it."""
        return lock_mode(self.access)

    @property
    def word(self) -> str:
        return self.activity_word or self.name


Listener = Callable[[Session, Operation], None]


@frozen
class Registry:
    """All kinds of this installation, and the listeners to their effects."""

    kinds: Mapping[str, Kind] = field(default_factory=dict)
    listeners: Mapping[Effect, tuple[Listener, ...]] = field(default_factory=dict)

    @staticmethod
    def of(kinds: Iterable[Kind], listeners: Iterable[tuple[Effect, Listener]] = ()) -> "Registry":
        by_effect: dict[Effect, tuple[Listener, ...]] = {}
        for effect, listener in listeners:
            by_effect[effect] = (*by_effect.get(effect, ()), listener)
        by_name: dict[str, Kind] = {}
        for kind in kinds:
            if kind.name in by_name:
                raise ValueError(f"two kinds are called {kind.name}")
            by_name[kind.name] = kind
        return Registry(by_name, by_effect)

    def word_of(self, kind: str) -> str:
        known = self.kinds.get(kind)
        return known.word if known else kind


REGISTRY = Part[Registry]("registry")


def kind_named(name: str) -> Callable[[Request], Awaitable[Kind]]:
    """Make a route dependency that returns the kind with this name."""

    async def the_kind(request: Request) -> Kind:
        return REGISTRY.of(request.app).kinds[name]

    return the_kind
