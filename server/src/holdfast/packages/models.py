"""The table of packages."""

from datetime import datetime

from sqlalchemy import CheckConstraint, String
from sqlalchemy.orm import Mapped, mapped_column

from holdfast.storage.base import NEVER_REUSED, NumberedRow


class Package(NumberedRow):
    """A program that can be installed on the service's machine, and the command that installs it."""

    __tablename__ = "packages"

    name: Mapped[str] = mapped_column(String(200), unique=True)
    install_command: Mapped[list[str]]
    """Program and arguments, run without a shell."""
    description: Mapped[str | None]
    status: Mapped[str] = mapped_column(String(20), default="not_installed")
    """The result of its last installation."""
    installed_at: Mapped[datetime | None]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]

    __table_args__ = (
        CheckConstraint("status IN ('not_installed', 'installed', 'failed')", name="status"),
        NEVER_REUSED,
    )
