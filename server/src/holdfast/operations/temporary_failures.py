"""Failures that may resolve themselves."""

TEMPORARY = frozenset(
    {
        "engine.unreachable",
        "engine.locked",
        "operations.interrupted",
        "store.unavailable",
        "rclone.unreachable",
        "agents.offline",
    }
)
"""For any other failure a person must act: the same run would fail again."""
