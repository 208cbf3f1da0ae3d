"""Roles, weakest first."""

from enum import Enum
from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticCustomError
from sqlalchemy import CheckConstraint, Dialect, String
from sqlalchemy.types import TypeDecorator


class Role(Enum):
    """A role, ordered by rank. The API and the store use its text."""

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


# Admins are global: no user is an admin of a single repository.
RepositoryRole = Annotated[
    Role, AfterValidator(_of_repositories), WithJsonSchema({"type": "string", "enum": ["viewer", "operator"]})
]


class RoleText(TypeDecorator[Role]):
    """Column type that stores a role as text."""

    impl = String(16)
    cache_ok = True

    def process_bind_param(self, value: Role | None, dialect: Dialect) -> str | None:
        del dialect
        return None if value is None else value.value

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Role | None:
        del dialect
        return None if value is None else Role(value)


def role_constraint(column: str, *roles: Role) -> CheckConstraint:
    """A database constraint that limits a column to these roles."""
    words = ", ".join(f"'{role.value}'" for role in roles)
    return CheckConstraint(f"{column} IN ({words})", name=column)
