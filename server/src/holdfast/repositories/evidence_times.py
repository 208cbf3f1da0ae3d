"""Times of evidence that a clock recorded while it was ahead.

They do not show when the work was done, and would count as recent until their time has come.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.repositories.models import Repository

CLOCKS_DIFFER = timedelta(minutes=5)
"""By how much the clocks of different machines may differ without being wrong."""
TIMES = (
    "last_backup",
    "last_check",
    "last_prune",
    "last_compact",
    "last_index",
    "last_restore_check",
    "last_mirror",
    "last_synced",
    "last_stats",
    "last_history",
)


def unless_ahead(moment: datetime | None, now: datetime) -> datetime | None:
    """Return a recorded time; None if it is unknown because it is clearly in the future."""
    return None if moment is None or moment > now + CLOCKS_DIFFER else moment


def forget_ahead(repository: "Repository", now: datetime) -> None:
    """Remove such times from a repository's evidence."""
    for name in TIMES:
        if unless_ahead(getattr(repository, name), now) is None:
            setattr(repository, name, None)
