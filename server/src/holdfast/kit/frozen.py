"""Values: the classes that most of the service consists of."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

Value = TypeVar("Value")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[Value]) -> type[Value]:
    """A dataclass whose objects cannot be changed and have no other attributes than its fields."""
    return dataclass(frozen=True, slots=True)(cls)
