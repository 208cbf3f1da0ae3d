"""The tables of scripts."""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, Integer, String, text
from sqlalchemy.orm import Mapped, mapped_column

from holdfast.storage.base import Base
from holdfast.storage.types import Identifier, RowKey, RowUuid

NOT_DELETED = text("deleted_at IS NULL")


class StoredScript(Base):
    """A script of the library. What it says is in its versions; they stay when it is deleted."""

    __tablename__ = "scripts"

    id: Mapped[RowKey]
    name: Mapped[str] = mapped_column(String(200))
    description: Mapped[str | None]
    where: Mapped[str] = mapped_column("place", String(10))
    """`service`, `ssh` or `agent`: on the service's machine, or on the one that opens the repository."""
    interpreter: Mapped[list[str]]
    arguments: Mapped[list[str]]
    installed_as: Mapped[str | None] = mapped_column(String(100))
    """On agents: the name of a file that the owner of the machine has installed."""
    timeout_seconds: Mapped[int]
    parameters: Mapped[list[dict[str, Any]]]
    """Each `{"name", "type", "required", "secret"}`."""
    operators_may_use: Mapped[bool]
    version: Mapped[int]
    """The newest version, which is the one that runs."""
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    deleted_at: Mapped[datetime | None]

    __table_args__ = (
        CheckConstraint("place IN ('service', 'ssh', 'agent')", name="place"),
        Index(
            "uq_scripts_name",
            "name",
            unique=True,
            sqlite_where=NOT_DELETED,
            postgresql_where=NOT_DELETED,
        ),
        {"sqlite_autoincrement": True},
    )


class ScriptVersion(Base):
    """What a script said at a time. Never changed."""

    __tablename__ = "script_versions"

    script_id: Mapped[int] = mapped_column(Identifier, ForeignKey("scripts.id", ondelete="CASCADE"), primary_key=True)
    version: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    content: Mapped[str]
    sha256: Mapped[str] = mapped_column(String(64))
    author_id: Mapped[int | None] = mapped_column(Identifier)
    author: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[datetime]


class ScriptSecrets(Base):
    """The secret parameters of a step or a run, encrypted; steps and operations name them by `uuid`."""

    __tablename__ = "script_secrets"

    id: Mapped[RowKey]
    uuid: Mapped[RowUuid]
    sealed: Mapped[str]
    created_at: Mapped[datetime]

    __table_args__ = ({"sqlite_autoincrement": True},)
