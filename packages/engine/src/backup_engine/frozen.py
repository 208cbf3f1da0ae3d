"""Immutable value classes, which make up most of the service and the agent.

The standard library's `dataclass(frozen=True, slots=True)` generates and compiles six functions for each class. With
about four hundred classes, that was a fifth of the service's start time. Here each class has one function of its own
and shares the others (docs/decisions/0064-lighter-start.md).
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, field
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

Value = TypeVar("Value")
_UNSAID = "-"


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[Value]) -> type[Value]:
    """Make a dataclass whose objects are immutable and have no attributes other than its fields."""
    text = cls.__doc__
    cls.__doc__ = text or _UNSAID  # otherwise derived from the signature, which takes as long as all the rest
    made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    made.__doc__ = text
    fields = dataclasses.fields(made)  # type: ignore[arg-type] # it has just become a dataclass
    compared = [each.name for each in fields if each.compare]
    methods = {
        **_SHARED,
        "__init__": _initializer(made, fields),
        "_compared": attrgetter(*compared) if compared else _nothing,
    }
    for name, method in methods.items():
        if made.__dict__.get(name) is None:  # `__hash__` is None if the class defines its own `__eq__`
            setattr(made, name, method)
    return made


def _initializer(made: type, fields: Sequence[Field[Any]]) -> Callable[..., None]:
    """Create an initialiser that sets each field through its slot, since the objects themselves refuse assignment."""
    known: dict[str, Any] = {"_missing": MISSING}
    parameters, steps = ["self"], []
    for each in fields:
        name, value = each.name, each.name
        known[f"_set_{name}"] = getattr(made, name).__set__
        if each.default_factory is not MISSING:
            known[f"_default_{name}"] = each.default_factory
            value = f"_default_{name}() if {name} is _missing else {name}" if each.init else f"_default_{name}()"
        elif each.default is not MISSING:
            known[f"_default_{name}"] = each.default
        elif not each.init:
            continue  # `__post_init__` sets it
        if each.init:
            default = "_missing" if each.default_factory is not MISSING else f"_default_{name}"
            parameters.append(f"{name}={default}" if default in known else name)
        steps.append(f"_set_{name}(self, {value})")
    if hasattr(made, "__post_init__"):
        steps.append("self.__post_init__()")
    text = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(steps or ["pass"])
    exec(text, known)  # noqa: S102 -- nothing but names of fields
    known["__init__"].__qualname__ = f"{made.__qualname__}.__init__"
    found: Callable[..., None] = known["__init__"]
    return found


def _nothing(_value: Any) -> tuple[()]:
    return ()


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    compared = self.__class__._compared  # noqa: SLF001
    return compared(self) == compared(other)


def _hash(self: Any) -> int:
    return hash(self.__class__._compared(self))  # noqa: SLF001


def _shown(self: Any) -> str:
    values = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({values})"


def _refuse_change(self: Any, name: str, _value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r} of {self.__class__.__qualname__}")


def _refuse_removal(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r} of {self.__class__.__qualname__}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


_SHARED: dict[str, Callable[..., Any]] = {
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _shown,
    "__setattr__": _refuse_change,
    "__delattr__": _refuse_removal,
    "__getstate__": _state,
    "__setstate__": _set_state,
}
