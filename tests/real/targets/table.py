"""What a cell can do: a cell is an engine on an execution target.

docs/targets.md shows the same, and a test ensures that both match.
"""

from dataclasses import dataclass

ENGINES = ("1.2", "1.4", "2")
TARGETS = ("local", "ssh", "agent")
CELLS = tuple((engine, target) for engine in ENGINES for target in TARGETS)

KINDS = {
    "create": "create the repository",
    "backup": "back up, with sizes, progress and log",
    "archives": "list of archives in the index",
    "live": "list of archives, live from the engine",
    "browse": "browse the folders of an archive",
    "changes": "show changes between archives",
    "search": "search for files, and show the history of a path",
    "key": "export the key",
    "check": "check",
    "restore_check": "restore check",
    "restore": "restore to the target's machine",
    "prune_dry_run": "dry run of a prune",
    "missing_source": "a backup fails if all its sources are missing",
    "warning": "a backup warns if one of its sources is missing",
    "cancel": "cancel a running backup",
    "break_lock": "break a stale lock",
    "prune": "prune",
    "compact": "compact",
    "delete": "delete an archive",
    "undelete": "undelete an archive",
    "wipe": "wipe, with preview",
}


@dataclass(frozen=True)
class NotThere:
    """Why a cell lacks a kind, and the response to a request for it."""

    why: str
    code: int
    key: str
    sentence: str


NO_SOFT_DELETE = NotThere(
    "engine 1 deletes immediately and keeps nothing to undelete",
    422,
    "engine.unsupported",
    "BorgBackup 1 cannot undelete archives.",
)


NOT_THERE: dict[tuple[str, str, str], NotThere] = {
    (engine, target, "undelete"): NO_SOFT_DELETE for engine in ("1.2", "1.4") for target in TARGETS
}


# --- the same for readers --------------------------------------------------------------------------------------------


def what_works() -> list[str]:
    """The lines of the table in docs/targets.md: which engines support a kind on which target."""
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
    """The lines of the second table: what is not supported, why, and the response to a request for it."""
    grouped: dict[tuple[str, NotThere], list[str]] = {}
    for (engine, target, kind), row in NOT_THERE.items():
        grouped.setdefault((f"{KINDS[kind]} | {target}", row), []).append(engine)
    return [
        "| | target | engine | answer | because |",
        "|---|---|---|---|---|",
        *(
            f"| {words} | {' · '.join(engines)} | {row.code} `{row.key}` | {row.why} |"
            for (words, row), engines in grouped.items()
        ),
    ]
