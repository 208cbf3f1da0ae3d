"""Roles, weakest first."""

from enum import Enum
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticCustomError
from sqlalchemy import Enum as EnumColumn


class Role(Enum):
    """Ordered by rank; its text form is what the API and the store hold."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        return RANKS[self]

    def __lt__(self, other: "Role") -> bool:
        return self.rank < other.rank

    def __le__(self, other: "Role") -> bool:
        return self.rank <= other.rank

    def __gt__(self, other: "Role") -> bool:
        return self.rank > other.rank

    def __ge__(self, other: "Role") -> bool:
        return self.rank >= other.rank

    def __str__(self) -> str:
        return self.value


RANKS = {role: rank for rank, role in enumerate(Role)}


def _of_repositories(role: Role) -> Role:
    if role is Role.ADMIN:
        raise PydanticCustomError("role", "A role on repositories is viewer or operator.")
    return role


# Nobody is an admin of one repository.
RepositoryRole = Annotated[
    Role, AfterValidator(_of_repositories), WithJsonSchema({"type": "string", "enum": ["viewer", "operator"]})
]


def role_column(name: str, *roles: Role) -> EnumColumn:
    """A text column that holds one of the given roles, and the database checks it."""
    return EnumColumn(
        Role,
        name=name,
        native_enum=False,
        create_constraint=True,
        length=16,
        values_callable=lambda _enum: [role.value for role in roles or Role],
    )
