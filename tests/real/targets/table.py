"""What a cell can do: a cell is an engine on an execution target. docs/targets.md shows the same, and a test holds them equal."""

from dataclasses import dataclass, field
from typing import Any

ENGINES = ("1.2", "1.4", "2")
TARGETS = ("local", "ssh", "agent")
CELLS = tuple((engine, target) for engine in ENGINES for target in TARGETS)

KINDS = {
    "create": "make the repository",
    "backup": "back up, with sizes, progress and log",
    "archives": "archives in the index",
    "live": "archives asked of the engine now",
    "browse": "folders of an archive",
    "changes": "changes between archives",
    "search": "search for files, and the history of a path",
    "key": "export the key",
    "check": "check",
    "restore_check": "restore check",
    "restore": "restore to the target's machine",
    "prune_dry_run": "prune, dry run",
    "missing_source": "a backup whose sources are missing fails",
    "warning": "a backup with a missing source among others warns",
    "cancel": "cancel a running backup",
    "break_lock": "break a stale lock",
    "prune": "prune",
    "compact": "compact",
    "delete": "delete an archive",
    "undelete": "bring a deleted archive back",
    "wipe": "wipe, with its preview",
}


@dataclass(frozen=True)
class NotThere:
    """Why a cell lacks a kind, and what whoever asks for it is told."""

    why: str
    code: int
    key: str | None = None
    sentence: str | None = None
    answer: dict[str, Any] = field(default_factory=dict, hash=False)
    """Where the route answers all the same: how it says that it knows nothing."""

    @property
    def told(self) -> str:
        return f"{self.code} `{self.key}`" if self.key else f"{self.code}, empty, and it says so"


IN_A_REQUEST = NotThere(
    "an agent takes jobs; nobody can ask it in the middle of a request",
    422,
    "repository.on_agent",
    "The repository is opened by its agent; this cannot be asked of it in a request.",
)
NO_SOFT_DELETE = NotThere(
    "engine 1 deletes at once and keeps nothing to bring back",
    422,
    "engine.unsupported",
    "BorgBackup 1 cannot bring a deleted archive back.",
)


def not_a_job(kind: str) -> NotThere:
    return NotThere(
        "agents have no job of this kind",
        422,
        "operations.not_on_agents",
        f"Agents cannot execute operations of the kind {kind}.",
    )


def no_history(**answer: Any) -> NotThere:
    return NotThere("agents send no lists of files, so there is no file history", 200, answer=answer)


ON_AGENTS = {
    "live": IN_A_REQUEST,
    "browse": IN_A_REQUEST,
    "changes": no_history(changes=[], incomplete=True, history_state="skipped"),
    "search": no_history(results=[], coverage={"indexed": 0}),
    "key": IN_A_REQUEST,
    "restore_check": not_a_job("restore_check"),
    "prune_dry_run": IN_A_REQUEST,
    "undelete": not_a_job("undelete_archive"),
    "wipe": IN_A_REQUEST,
}

NOT_THERE: dict[tuple[str, str, str], NotThere] = {
    **{(engine, "agent", kind): row for engine in ENGINES for kind, row in ON_AGENTS.items()},
    **{(engine, target, "undelete"): NO_SOFT_DELETE for engine in ("1.2", "1.4") for target in ("local", "ssh")},
}


# --- the same for readers --------------------------------------------------------------------------------------------


def what_works() -> list[str]:
    """The lines of the table of docs/targets.md: which engines have a kind on which target."""
    return [
        "| | local | ssh | agent |",
        "|---|---|---|---|",
        *(
            f"| {words} | {' | '.join(_engines_with(kind, target) for target in TARGETS)} |"
            for kind, words in KINDS.items()
        ),
    ]


def _engines_with(kind: str, target: str) -> str:
    return " · ".join(engine for engine in ENGINES if (engine, target, kind) not in NOT_THERE) or "no"


def what_is_said_instead() -> list[str]:
    """The lines of the second table: what is not there, why, and how it is answered."""
    grouped: dict[tuple[str, NotThere], list[str]] = {}
    for (engine, target, kind), row in NOT_THERE.items():
        grouped.setdefault((f"{KINDS[kind]} | {target}", row), []).append(engine)
    return [
        "| | target | engine | answer | because |",
        "|---|---|---|---|---|",
        *(f"| {words} | {' · '.join(engines)} | {row.told} | {row.why} |" for (words, row), engines in grouped.items()),
    ]
