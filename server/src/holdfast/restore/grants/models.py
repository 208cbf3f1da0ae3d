"""The table of restore grants."""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from holdfast.access.models import USERNAME_LENGTH
from holdfast.access.roles import Role, RoleText, role_constraint
from holdfast.kit import clock
from holdfast.storage.base import NEVER_REUSED, Base
from holdfast.storage.types import Identifier, JsonValue, UtcDateTime


class RestoreGrant(Base):
    """Allows a user, or all users with at least a role, to restore into a folder of a machine and everything below it.

    It is removed with its user or its machine.
    """

    __tablename__ = "restore_grants"
    __table_args__ = (
        role_constraint("role", Role.VIEWER, Role.OPERATOR),
        CheckConstraint("machine_type IN ('local', 'ssh', 'agent')", name="machine_type"),
        CheckConstraint("(user_id IS NULL) <> (role IS NULL)", name="user_or_role"),
        NEVER_REUSED,
    )

    id: Mapped[int] = mapped_column(Identifier, primary_key=True)
    user_id: Mapped[int | None] = mapped_column(Identifier, ForeignKey("users.id", ondelete="CASCADE"), index=True)
    role: Mapped[Role | None] = mapped_column(RoleText)
    machine_type: Mapped[str] = mapped_column(String(10))
    ssh_connection_id: Mapped[int | None] = mapped_column(
        Identifier, ForeignKey("ssh_connections.id", ondelete="CASCADE"), index=True
    )
    agent_machine_id: Mapped[int | None] = mapped_column(
        Identifier, ForeignKey("agent_machines.id", ondelete="CASCADE"), index=True
    )
    folder: Mapped[Any] = mapped_column(JsonValue)
    """As `archived_paths` writes paths: text, or `{path_b64}` if the bytes are not valid UTF-8."""
    created_by: Mapped[str | None] = mapped_column(String(USERNAME_LENGTH))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=clock.now)
