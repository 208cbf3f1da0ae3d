"""The tables of scripts."""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Integer, String, text
from sqlalchemy.orm import Mapped, mapped_column

from holdfast.storage.base import NEVER_REUSED, Base, NumberedRow, partial_index
from holdfast.storage.types import Identifier, RowUuid

NOT_DELETED = text("deleted_at IS NULL")


class StoredScript(NumberedRow):
    """A script of the library. Its content is in its versions, which are kept when it is deleted."""

    __tablename__ = "scripts"

    name: Mapped[str] = mapped_column(String(200))
    description: Mapped[str | None]
    where: Mapped[str] = mapped_column("place", String(10))
    """`service`, `ssh` or `agent`: on the service's machine, or on the machine that opens the repository."""
    interpreter: Mapped[list[str]]
    arguments: Mapped[list[str]]
    installed_as: Mapped[str | None] = mapped_column(String(100))
    """For agents: the name of a file that the owner of the machine has installed."""
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
        partial_index("uq_scripts_name", "name", where=NOT_DELETED, unique=True),
        NEVER_REUSED,
    )


class ScriptVersion(Base):
    """The content of a script at one point in time. Never changed."""

    __tablename__ = "script_versions"

    script_id: Mapped[int] = mapped_column(Identifier, ForeignKey("scripts.id", ondelete="CASCADE"), primary_key=True)
    version: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    content: Mapped[str]
    sha256: Mapped[str] = mapped_column(String(64))
    author_id: Mapped[int | None] = mapped_column(Identifier)
    author: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[datetime]


class ScriptSecrets(NumberedRow):
    """The secret parameters of a step or a run, encrypted; steps and operations refer to them by `uuid`."""

    __tablename__ = "script_secrets"

    uuid: Mapped[RowUuid]
    sealed: Mapped[str]
    created_at: Mapped[datetime]
