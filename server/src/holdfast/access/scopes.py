"""Scopes of account tokens. The scope limits what a token may change; its user's rights decide what it may read.

`metrics` is the narrowest: such a token may read `/metrics` and nothing else.
"""

from enum import StrEnum

from sqlalchemy import CheckConstraint

from holdfast.access.roles import Role


class TokenScope(StrEnum):
    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"
    METRICS = "metrics"

    @property
    def ceiling(self) -> Role | None:
        """The highest role that a token of this scope may use for changes; None if it may change nothing."""
        return CEILINGS[self]


CEILINGS = {
    TokenScope.READ: None,
    TokenScope.OPERATE: Role.OPERATOR,
    TokenScope.ADMIN: Role.ADMIN,
    TokenScope.METRICS: None,
}


def below_ceiling(ceiling: Role, role: Role, all_repositories_role: Role | None) -> tuple[Role, Role | None]:
    """Limit a user's role and their role on all repositories to the ceiling."""
    if role is Role.ADMIN:  # admins need no rights on repositories, and neither do their tokens
        all_repositories_role = Role.OPERATOR
    return min(role, ceiling), None if all_repositories_role is None else min(all_repositories_role, ceiling)


def has_scope(column: str) -> CheckConstraint:
    words = ", ".join(f"'{scope}'" for scope in TokenScope)
    return CheckConstraint(f"{column} IN ({words})", name=column)
