"""The table of download tickets."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from holdfast.storage.base import Base
from holdfast.storage.types import Identifier, UtcDateTime


class DownloadTicket(Base):
    """Permission for one download without a credential. Using it removes the row."""

    __tablename__ = "download_tickets"

    id: Mapped[int] = mapped_column(Identifier, primary_key=True)
    token_hash: Mapped[str] = mapped_column(String(64), unique=True)
    user_id: Mapped[int] = mapped_column(Identifier, ForeignKey("users.id", ondelete="CASCADE"), index=True)
    session_id: Mapped[int | None] = mapped_column(Identifier)
    account_token_id: Mapped[int | None] = mapped_column(Identifier)
    """The credential that requested the ticket. When it becomes invalid, so does the ticket."""
    wanted: Mapped[dict[str, Any]]
    """The validated request for the ticket."""
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
