"""What a feature contributes to the service: one value, `FEATURE`, in the `feature.py` of its folder."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from fastapi import APIRouter

from backup_engine.frozen import frozen
from holdfast.access.stored_secrets import SecretColumn
from holdfast.api.app import Application
from holdfast.api.parts import Maker, Parts
from holdfast.operations.kinds import Effect, Kind, Listener
from holdfast.operations.readers import Reader

Where = Literal["api", "runner"] | None
"""The role of the processes to which something applies; None: all of them."""


class When(Enum):
    PREPARE = auto()
    """Before anything runs."""
    START = auto()
    TIDY = auto()
    """Once an hour."""
    STOP = auto()
    CLOSE = auto()
    """When everything has stopped. Features stop and close in the reverse order of their start."""


@frozen
class Task:
    """A step in the life of a process."""

    when: When
    run: Callable[[], object]
    where: Where = None


@frozen
class Tick:
    """A step that the supervisor runs at an interval and reports under its name."""

    name: str
    seconds: float
    run: Callable[[], object]
    where: Where = None


def _nothing(parts: Parts) -> tuple[()]:
    del parts
    return ()


def _not_installed(app: Application) -> None:
    del app


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    name: str
    routers: tuple[APIRouter, ...] = ()
    secrets: tuple[SecretColumn, ...] = ()
    """Encrypted columns, for key rotation."""
    provides: tuple[Maker, ...] = ()
    """Objects for the feature's own routes and for other features."""
    kinds: Callable[[Parts], Iterable[Kind]] = _nothing
    """Its operation kinds. They must not need the registry, which is built from them."""
    listeners: Callable[[Parts], Iterable[tuple[Effect, Listener]]] = _nothing
    readers: Callable[[Parts], Iterable[Reader]] = _nothing
    """Its durable readers of the outbox."""
    ticks: Callable[[Parts], Iterable[Tick]] = _nothing
    tasks: Callable[[Parts], Iterable[Task]] = _nothing
    connect: Callable[[Parts], object] = _nothing
    """Called once, when all objects exist, to register with lower-level features."""
    install: Callable[[Application], object] = _not_installed
    """Adds what is not a router: a handler in front of the application, or routes outside the API."""
