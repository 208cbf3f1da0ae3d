"""When work on a repository is overdue: the seam to the feature that knows how often it should happen."""

from collections.abc import Mapping
from typing import Protocol

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.api.parts import Part


@frozen
class OverdueAfter:
    """The age of the last success beyond which it is overdue."""

    seconds: float
    schedule_id: int | None = None
    """The schedule that it follows from; None: a constant."""


class OverdueRules(Protocol):
    def of_all(self, session: Session) -> Mapping[int, Mapping[str, OverdueAfter]]:
        """For each repository, by the name of the cell of `/status`: backup, check, prune, compact, restore_check,
        index, mirror. Cells that are not wanted are left out.
        """


OVERDUE_RULES = Part[OverdueRules]("overdue_rules")
CONSTANT_RULES = Part[OverdueRules]("constant_overdue_rules")
"""For repositories that no schedule takes care of."""
