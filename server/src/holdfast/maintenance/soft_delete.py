"""What it means that an engine only marks archives as deleted."""

from typing import Any

from holdfast.repositories.models import Repository

MAJORS = frozenset({2})
"""Majors of the engine that do so."""
NOTE = "Marked as deleted: it can be undeleted until the next compaction, which alone gives its space back."


def told(repository: Repository) -> dict[str, Any]:
    """What the result of an operation that deletes says about it; nothing where deleted is gone."""
    return {"soft_deleted": True, "note": NOTE} if repository.engine_version in MAJORS else {}
