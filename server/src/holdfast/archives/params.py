"""Parameters of index operations."""

from pydantic import ConfigDict

from holdfast.kit.schema import Schema


class StageParams(Schema):
    model_config = ConfigDict(extra="forbid")

    covered_by: int | None = None
    """An operation of the same kind that was waiting when this one was queued: if it reads the repository first, this
    one need not read it again."""
