"""A program call as a value, which the shim executes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from backup_engine.frozen import frozen

LARGEST_RESULT = 16 * 1024 * 1024
"""Maximum bytes of an answer that is read whole: a list of archives, facts about a repository, a dry run."""
LARGEST_STREAM = 16 * 1024**3
"""Maximum bytes of an answer that is read piece by piece, and of an engine's log: about a hundred million lines."""

Delivery = Literal["descriptor", "environment"]
Older = Literal["refuse", "accept", "look"]
"""What to do with a repository that is older than the last state its engine has seen."""


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A value that reaches the engine through a pipe or its environment, never through argv or a file.

    With delivery ``descriptor`` the variable holds the number of an inherited pipe from which the engine reads the
    value.
    """

    value: str
    delivery: Delivery = "descriptor"

    def __repr__(self) -> str:
        return f"Secret(delivery={self.delivery!r})"


@frozen
class Machine:
    """Another machine that runs a command. ``ssh`` is how a command line for it begins."""

    name: str
    ssh: tuple[str, ...]
    python: str | None
    """Its Python, under which the shim runs there; None: the engine runs under plain ssh, and ends with the link."""
    patience_seconds: float = 24 * 3600.0
    """How long to look for a run on a machine that has become unreachable."""


@frozen
class CalledAgent:
    """A machine whose agent polls for work; nothing can connect to it from here. See ``far.agent_call``."""

    name: str
    agent_machine_id: int
    repository_id: int
    folder: str
    """Folder that holds calls until the agent takes them."""
    patience_seconds: float = 60.0
    """How long to wait for an agent that does not connect."""


@frozen
class Call:
    """A call that an agent executes: a method of its engine, and the request in JSON values."""

    method: str
    request: Mapping[str, Any]


@frozen
class Guard:
    """Checks that the engine's machine makes before the engine runs. See ``repository_guard``."""

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
    """A user's script in place of an engine: see ``shim``. Without ``content`` it is a file on its machine."""

    at: int
    """Its position in argv."""
    content: str | None
    seconds: float
    """Time limit, after which it is stopped."""
    path: str | None = None

    def record(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


@frozen
class Command:
    """One call of an engine program. Non-UTF-8 arguments are carried with ``surrogateescape``."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    working_directory: str | None = None
    machine: Machine | CalledAgent | None = None
    call: Call | None = None
    """Always present for an agent, which builds the command line itself."""
    shown: str | None = None
    """Shown in logs instead of the arguments, where those would explain little."""
    guard: Guard | None = None
    most_output: int = LARGEST_STREAM
    """Bytes that each of its streams may have in the spool. The shim stops a program that writes more."""
    into: tuple[str, ...] = ()
    """A program on this machine that reads the command's output; both are one run and end together."""
    script: Script | None = None
    gives_way: bool = False
    """Whether other engines of this machine come first: it runs at a lower priority than they do."""
    feeder: Mapping[str, Any] | None = None
    """On an ssh machine: what its copy of the feeder feeds to the engine. See ``dumps.feeding``."""
    narrows: bool = False
    """On an ssh machine: whether its copy of ``chunks.narrowed`` runs the engine."""

    @property
    def secret_values(self) -> tuple[str, ...]:
        return tuple(secret.value for secret in self.secrets.values() if secret.value)
