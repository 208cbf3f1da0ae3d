"""The base of all bodies, answers and stored documents."""

from typing import Any, Self

from pydantic import BaseModel


class Schema(BaseModel, defer_build=True):
    """Its validators are built when they are first needed: building all of them would take a fifth of a start."""

    @classmethod
    def from_row(cls, row: object, **others: Any) -> Self:
        """With the values that an object has under the same names, except those that are given."""
        return cls(**{name: getattr(row, name) for name in cls.model_fields if name not in others}, **others)


class Closed(Schema, extra="forbid"):
    """For bodies and stored parameters: a misspelled field is refused, not passed over in silence."""
