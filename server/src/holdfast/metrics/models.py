"""The table of counters."""

from sqlalchemy import Float, String
from sqlalchemy.orm import Mapped, mapped_column

from holdfast.storage.base import Base


class MetricTotal(Base):
    """How far one series of a counter or histogram has come since the store was made."""

    __tablename__ = "metric_totals"

    name: Mapped[str] = mapped_column(String(120), primary_key=True)
    """The family, with the suffix of a histogram's series."""
    labels: Mapped[str] = mapped_column(String(600), primary_key=True)
    """As the text format has them."""
    value: Mapped[float] = mapped_column(Float(53))
