"""Engines that only mark archives as deleted."""

from typing import Any

from holdfast.repositories.models import Repository

MAJORS = frozenset({2})
"""Engine majors that do so."""
NOTE = "Marked as deleted: it can be undeleted until the next compaction reclaims its space."


def note_for(repository: Repository) -> dict[str, Any]:
    """The note in the result of a deletion; empty if deleted archives are gone at once."""
    return {"soft_deleted": True, "note": NOTE} if repository.engine_version in MAJORS else {}
