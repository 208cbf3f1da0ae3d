"""The tables of remotes and of mirrors."""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Integer, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from holdfast.storage.base import NEVER_REUSED, NumberedRow
from holdfast.storage.types import Identifier, JsonValue, RowUuid


class RcloneRemote(NumberedRow):
    """A storage that rclone can reach, with its credentials."""

    __tablename__ = "rclone_remotes"

    uuid: Mapped[RowUuid]
    name: Mapped[str] = mapped_column(String(64), unique=True)
    provider: Mapped[str] = mapped_column(String(60))
    options: Mapped[dict[str, str]] = mapped_column(JsonValue)
    """The options that are not secret."""
    secrets: Mapped[str | None]
    """The secret options as JSON, obscured where rclone requires it, encrypted; see access.vault."""
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class RepositoryMirror(NumberedRow):
    """Where and when a repository is mirrored, and the state of the mirror."""

    __tablename__ = "repository_mirrors"

    repository_id: Mapped[int] = mapped_column(
        Identifier, ForeignKey("repositories.id", ondelete="CASCADE"), unique=True
    )
    remote_id: Mapped[int] = mapped_column(Identifier, ForeignKey("rclone_remotes.id"))
    path: Mapped[str]
    mode: Mapped[str] = mapped_column(String(20))
    interval_minutes: Mapped[int | None]
    bandwidth_limit_kib: Mapped[int | None]
    shrink_threshold_percent: Mapped[int]
    verify: Mapped[bool]
    verify_sample: Mapped[int] = mapped_column(Integer, default=0, server_default="0")
    last_sync_at: Mapped[datetime | None]
    verified_at: Mapped[datetime | None]
    verified_by: Mapped[str | None] = mapped_column(String(10))
    """How the last comparison was made: `hashes`, `sizes` or `sample`."""
    mirrored: Mapped[dict[str, Any] | None]
    """The mirror's contents after its last complete sync: `bytes`, `files`, `newest` (segment)."""
    turn_operation_id: Mapped[int | None] = mapped_column(Identifier)
    """The sync that may write to the mirror, while it runs."""
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]

    __table_args__ = (
        UniqueConstraint("remote_id", "path"),
        CheckConstraint("mode IN ('after_backup', 'interval', 'manual')", name="mode"),
        NEVER_REUSED,
    )
