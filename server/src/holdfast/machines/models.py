"""The tables of ssh machines."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from holdfast.storage.base import NumberedRow
from holdfast.storage.types import Identifier, RowUuid


class SshKey(NumberedRow):
    """A key pair of the service. The newest is the one to deploy; older ones stay while a machine needs them."""

    __tablename__ = "ssh_keys"

    uuid: Mapped[RowUuid]
    private_key: Mapped[str]
    """Encrypted; see access.vault."""
    public_key: Mapped[str]
    created_at: Mapped[datetime]


class SshConnection(NumberedRow):
    """An account on another machine. Facts about the machine come from the last test."""

    __tablename__ = "ssh_connections"

    name: Mapped[str] = mapped_column(String(200), unique=True)
    host: Mapped[str] = mapped_column(String(255))
    port: Mapped[int]
    username: Mapped[str] = mapped_column(String(64))
    engine_path: Mapped[str | None]
    key_id: Mapped[int | None] = mapped_column(Identifier, ForeignKey("ssh_keys.id"))
    """The key that the machine accepts. None until a test has succeeded; until then the newest key is used."""
    host_key: Mapped[str | None]
    host_key_pinned_at: Mapped[datetime | None]
    state: Mapped[str] = mapped_column(String(10), default="unknown")
    last_test: Mapped[dict[str, Any] | None]
    last_tested_at: Mapped[datetime | None]
    last_seen_at: Mapped[datetime | None]
    engine_program: Mapped[str | None]
    engine_version: Mapped[str | None] = mapped_column(String(60))
    python_program: Mapped[str | None]
    python_version: Mapped[str | None] = mapped_column(String(20))
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
