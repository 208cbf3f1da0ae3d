"""Failures that may pass by themselves."""

PASSING = frozenset(
    {
        "engine.unreachable",
        "engine.locked",
        "operations.interrupted",
        "store.unavailable",
        "rclone.unreachable",
        "agents.offline",
    }
)
"""Everything else needs a person: the same run would fail in the same way."""
