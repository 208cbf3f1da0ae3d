"""Limits of reports, so that a long result fits into a message with everything else."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

LONGEST_WARNING = 2000
MOST_CHARACTERS = 100_000
"""Far below the size limit of a message, even if each character takes several bytes."""

Item = TypeVar("Item")


def within_message(items: Iterable[Item]) -> list[Item]:
    """Return the first items, as many as fit into a message."""
    kept: list[Item] = []
    size = 0
    for item in items:
        values = item.values() if isinstance(item, Mapping) else (item,)
        size += sum(len(str(value)) for value in values) + 50
        if size > MOST_CHARACTERS:
            break
        kept.append(item)
    return kept


def bounded_details(details: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: within_message(value) if isinstance(value, list | tuple) else value for name, value in details.items()
    }


def bounded_warnings(warnings: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    return tuple(
        within_message(
            {"path": warning.get("path"), "message": str(warning.get("message", ""))[:LONGEST_WARNING]}
            for warning in warnings
        )
    )
