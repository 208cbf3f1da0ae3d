"""The values by which lists of operations can be filtered. An unknown value is an error, not an empty list."""

from collections.abc import Iterable

from holdfast.errors import Unprocessable
from holdfast.operations.kinds import Registry
from holdfast.operations.status import Status, Trigger

KINDS_OF_THE_CONTRACT = frozenset({"import", "script_execution"})
"""Kinds that the contract allows as filter values, even where no such job can run."""
CATEGORIES = frozenset({"backup", "restore", "maintenance", "index", "mirror", "system", "import", "script"})


def require_known(
    registry: Registry,
    *,
    category: Iterable[str] = (),
    kind: Iterable[str] = (),
    status: Iterable[str] = (),
    trigger: Iterable[str] = (),
) -> None:
    """Raise Unprocessable, listing the valid values, if any value is unknown."""
    kinds = {name for name in registry.kinds if name != "inline"} | KINDS_OF_THE_CONTRACT
    _require("category", category, CATEGORIES | {one.category for one in registry.kinds.values()})
    _require("kind", kind, kinds)
    _require("status", status, {str(word) for word in Status})
    _require("trigger", trigger, {str(word) for word in Trigger})


def unknown_word(name: str, allowed: Iterable[str]) -> Unprocessable:
    words = sorted(allowed)
    return Unprocessable(
        "filters.unknown_value", f"Unknown {name}. Use one of: {', '.join(words)}.", field=name, allowed=words
    )


def _require(name: str, given: Iterable[str], allowed: Iterable[str]) -> None:
    if not set(given) <= set(allowed):
        raise unknown_word(name, allowed)
