"""The table of counters."""

from sqlalchemy import Float, String
from sqlalchemy.orm import Mapped, mapped_column

from holdfast.storage.base import Base


class MetricTotal(Base):
    """The total of one series of a counter or histogram since the store was created."""

    __tablename__ = "metric_totals"

    name: Mapped[str] = mapped_column(String(120), primary_key=True)
    """The family, with the suffix of a histogram's series."""
    labels: Mapped[str] = mapped_column(String(600), primary_key=True)
    """As written in the text format."""
    value: Mapped[float] = mapped_column(Float(53))
