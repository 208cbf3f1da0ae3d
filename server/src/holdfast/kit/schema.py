"""The base of all request bodies, answers and stored documents."""

from typing import Any, Self

from pydantic import BaseModel


class Schema(BaseModel, defer_build=True):
    """A base model. Validators are built on first use: building all of them would take a fifth of the start-up time."""

    @classmethod
    def from_row(cls, row: object, **others: Any) -> Self:
        """Build the schema from an object's attributes of the same names, with the given values taking precedence."""
        return cls(**{name: getattr(row, name) for name in cls.model_fields if name not in others}, **others)


class Closed(Schema, extra="forbid"):
    """For bodies and stored parameters: an unknown field is an error instead of being ignored."""
