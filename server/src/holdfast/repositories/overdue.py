"""When work on a repository is overdue: the interface to the feature that knows how often it should happen."""

from collections.abc import Mapping
from typing import Protocol

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.api.parts import Part


@frozen
class OverdueAfter:
    """The age of the last success beyond which work is overdue."""

    seconds: float
    schedule_id: int | None = None
    """The schedule that determines the age; None: a constant."""


class OverdueRules(Protocol):
    def of_all(self, session: Session) -> Mapping[int, Mapping[str, OverdueAfter]]:
        """Return the rules for each repository, by cell of `/status`: backup, check, prune, compact, restore_check,
        index, mirror. Unwanted cells are left out.
        """


OVERDUE_RULES = Part[OverdueRules]("overdue_rules")
CONSTANT_RULES = Part[OverdueRules]("constant_overdue_rules")
"""For repositories without a schedule."""
