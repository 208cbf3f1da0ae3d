"""What it means that an engine only marks archives as deleted."""

from typing import Any

from backup_engine.features import Features

NOTE = "Marked as deleted: it can be undeleted until the next compaction, which alone gives its space back."


def told(features: Features) -> dict[str, Any]:
    """What the result of an operation that deletes says about it; nothing where deleted is gone."""
    return {"soft_deleted": True, "note": NOTE} if features.soft_delete else {}
