"""The table of wipe previews."""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from holdfast.storage.base import NEVER_REUSED, NumberedRow
from holdfast.storage.types import Identifier

PREVIEW_BASE = 1_000_000_000
"""Previews have public ids above this one, so that ids of previews and of operations never collide."""


class WipePreview(NumberedRow):
    """The archives that a wipe would remove, as a user has seen them. Each preview can start at most one wipe."""

    __tablename__ = "repository_wipe_jobs"

    repository_id: Mapped[int] = mapped_column(
        Identifier, ForeignKey("repositories.id", ondelete="CASCADE"), index=True
    )
    status: Mapped[str] = mapped_column(String(10))
    archive_count: Mapped[int]
    archive_fingerprint: Mapped[str] = mapped_column(String(80))
    archives: Mapped[list[dict[str, Any]]]
    run_compact: Mapped[bool]
    operation_id: Mapped[int | None] = mapped_column(Identifier)
    """The wipe that was started from it."""
    created_by: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[datetime]

    __table_args__ = (
        CheckConstraint("status IN ('previewed', 'started', 'cancelled')", name="status"),
        NEVER_REUSED,
    )

    @property
    def public_id(self) -> int:
        return PREVIEW_BASE + self.id
