"""The call of a program as a value, which the shim executes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from backup_engine.frozen import frozen

LARGEST_RESULT = 16 * 1024 * 1024
"""Limit in bytes for answers that are read as a whole: lists of archives, facts about a repository, dry runs."""
LARGEST_STREAM = 16 * 1024**3
"""Limit in bytes for answers that are read piece by piece, and for an engine's log: about a hundred million lines."""

Delivery = Literal["descriptor", "environment"]
Older = Literal["refuse", "accept", "look"]
"""How to treat a repository that is older than the last state its engine has seen."""


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A value that reaches the engine through a pipe or its environment, never through arguments or a file.

    With delivery ``descriptor``, the variable contains the number of an inherited pipe from which the engine reads the
    value.
    """

    value: str
    delivery: Delivery = "descriptor"

    def __repr__(self) -> str:
        return f"Secret(delivery={self.delivery!r})"


@frozen
class Machine:
    """Another machine that runs a command. ``ssh`` is the beginning of each command line for it."""

    name: str
    ssh: tuple[str, ...]
    python: str | None
    """Python there, under which the shim runs. Without it (None), the engine runs under plain ssh and ends with the
    connection.
    """
    patience_seconds: float = 24 * 3600.0
    """Time limit for finding a run again on a machine that has become unreachable."""


@frozen
class CalledAgent:
    """A machine whose agent polls for work; no connection to it is possible from here. See ``far.agent_call``."""

    name: str
    agent_machine_id: int
    repository_id: int
    folder: str
    """Folder for calls until the agent picks them up."""
    patience_seconds: float = 60.0
    """Time limit for an agent that does not connect."""


@frozen
class Call:
    """A call that an agent executes: an engine method, and its request as JSON values."""

    method: str
    request: Mapping[str, Any]


@frozen
class RepositoryGuard:
    """Checks that are made on the engine's machine before the engine runs. See ``repository_guard``."""

    major: int
    engine_id: str | None
    path: str | None
    program: str
    probe: tuple[str, ...]
    must_tell: bool = True
    tells_id: bool = False
    older: Older = "refuse"

    def record(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


@frozen
class Script:
    """A user's script that runs in place of an engine: see ``shim``. Without ``content`` it is a file on its
    machine.
    """

    at: int
    """Its position in argv."""
    content: str | None
    seconds: float
    """Time limit after which the script is stopped."""
    path: str | None = None

    def record(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


@frozen
class Command:
    """One call of an engine program. Arguments that are not valid UTF-8 use ``surrogateescape``."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    working_directory: str | None = None
    machine: Machine | CalledAgent | None = None
    call: Call | None = None
    """Set for every command of an agent, which builds the command line itself."""
    shown: str | None = None
    """Text for logs, where the arguments would explain little."""
    guard: RepositoryGuard | None = None
    most_output: int = LARGEST_STREAM
    """Limit in bytes for each of its streams in the spool. The shim stops a program that writes more."""
    into: tuple[str, ...] = ()
    """A program on this machine that reads the command's output. Both form one run and end together."""
    script: Script | None = None
    gives_way: bool = False
    """Run at a lower priority than other engines on this machine."""
    feeder: Mapping[str, Any] | None = None
    """For an ssh machine: the dumps that its copy of the feeder passes to the engine. See ``dumps.feeding``."""
    narrows: bool = False
    """For an ssh machine: whether its copy of ``chunks.narrowed`` runs the engine."""

    @property
    def secret_values(self) -> tuple[str, ...]:
        return tuple(secret.value for secret in self.secrets.values() if secret.value)
