"""Parameters of index operations."""

from holdfast.kit.schema import Closed


class StageParams(Closed):
    covered_by: int | None = None
    """An operation of the same kind that was waiting when this one was queued. If it reads the repository first, this
    one need not read it again.
    """
