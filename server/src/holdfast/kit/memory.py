"""Measures how much memory a value takes."""

import sys
from collections.abc import Iterable
from enum import Enum
from typing import Any

_STEP = 16
"""The allocator hands out multiples of this many bytes."""


def memory_of(value: object) -> int:
    """Size in bytes of a value with all its contents: containers, and objects with fields. Each object counts once."""
    seen: set[int] = set()
    whole = 0
    left: list[Any] = [value]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, (type, Enum)):
            continue
        seen.add(id(one))
        whole += -(-sys.getsizeof(one) // _STEP) * _STEP
        left.extend(_inside(one))
    return whole


def _inside(one: Any) -> Iterable[Any]:
    if isinstance(one, (str, bytes, int, float)):
        return ()
    if isinstance(one, dict):
        return (*one.keys(), *one.values())
    if isinstance(one, (tuple, list, set, frozenset)):
        return one
    slots = (name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ()))
    return [getattr(one, name) for name in (*slots, "__dict__") if hasattr(one, name)]
