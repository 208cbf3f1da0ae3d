"""The table of services that backups stop."""

from sqlalchemy import Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from holdfast.storage.base import Base
from holdfast.storage.types import RepositoryKey


class StoppedService(Base):
    """A unit that every backup of a repository stops, in the order of `position`, and starts again."""

    __tablename__ = "stopped_services"

    repository_id: Mapped[RepositoryKey]
    position: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(String(255))
