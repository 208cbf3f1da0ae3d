"""Scopes of account tokens: what a token may change. Its user's rights decide what it may read.

`metrics` is narrower than all others: such a token reads `/metrics` and nothing else.
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
        """The highest role that a token of this scope has when it changes something; None if it may change nothing."""
        return CEILINGS[self]


CEILINGS = {
    TokenScope.READ: None,
    TokenScope.OPERATE: Role.OPERATOR,
    TokenScope.ADMIN: Role.ADMIN,
    TokenScope.METRICS: None,
}


def below_ceiling(ceiling: Role, role: Role, all_repositories_role: Role | None) -> tuple[Role, Role | None]:
    """Given a user's role and their role on all repositories, return both, limited by the ceiling."""
    if role is Role.ADMIN:  # an admin needs no right on a repository; neither does a narrower token of theirs
        all_repositories_role = Role.OPERATOR
    return min(role, ceiling), None if all_repositories_role is None else min(all_repositories_role, ceiling)


def has_scope(column: str) -> CheckConstraint:
    words = ", ".join(f"'{scope}'" for scope in TokenScope)
    return CheckConstraint(f"{column} IN ({words})", name=column)
