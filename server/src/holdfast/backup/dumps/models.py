"""The table of databases to dump."""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from backup_engine.dumps import KINDS
from holdfast.storage.base import NEVER_REUSED, NumberedRow
from holdfast.storage.types import Identifier, RowUuid


class DumpedDatabase(NumberedRow):
    """A database whose dump is included in the dumps of a repository."""

    __tablename__ = "dumped_databases"

    uuid: Mapped[RowUuid]
    repository_id: Mapped[int] = mapped_column(Identifier, ForeignKey("repositories.id", ondelete="CASCADE"))
    name: Mapped[str] = mapped_column(String(60))
    """Also the name of its file in the archive, without the extension."""
    kind: Mapped[str] = mapped_column(String(20))
    options: Mapped[dict[str, Any]]
    """Those of `database`, `host`, `port` and `user` that are set."""
    password: Mapped[str | None]
    """Encrypted; see access.vault."""
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]

    __table_args__ = (
        CheckConstraint(f"kind IN ({', '.join(repr(kind) for kind in KINDS)})", name="kind"),
        UniqueConstraint("repository_id", "name"),
        NEVER_REUSED,
    )


def secret_context(uuid: str) -> str:
    return f"dumped_database:{uuid}:password"
