"""Labels of operation kinds in the activity history."""

from holdfast.operations.kinds import Registry

WORDS_OF_THE_CONTRACT = {
    "backup": "backup",
    "restore": "restore",
    "check": "check",
    "restore_check": "restore_check",
    "compact": "compact",
    "prune": "prune",
    "package": "package_install",
    "rclone_sync": "sync",
    "rclone_hydrate": "hydrate",
    "script_execution": "script_execution",
}


def kinds_of(registry: Registry, word: str) -> tuple[str, ...]:
    """Return the kinds behind a label: one of the contract's labels, or a kind's own name. Empty if it is neither."""
    if word in WORDS_OF_THE_CONTRACT:
        return (WORDS_OF_THE_CONTRACT[word],)
    return tuple(kind.name for kind in registry.kinds.values() if kind.word == word and kind.name != "inline")


def all_words(registry: Registry) -> set[str]:
    return {*WORDS_OF_THE_CONTRACT, *(kind.word for kind in registry.kinds.values() if kind.name != "inline")}
