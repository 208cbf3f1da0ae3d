"""The report of a bench: measurements, each with its limit, as one table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """How thorough a run is, and the store it uses."""

    quick: bool = False
    store: str = "sqlite"
    only: str = ""
    """The only part to measure, for benches that have parts."""

    def rows(self) -> int:
        """The number of rows in a large store."""
        return 50_000 if self.quick else 1_000_000

    def repeats(self, wanted: int) -> int:
        return max(3, wanted // 5) if self.quick else wanted


@dataclass(frozen=True, slots=True)
class Measurement:
    """One number. Without a limit it is for information and cannot fail."""

    what: str
    value: float
    unit: str
    limit: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return ""
        return "PASS" if self.value <= self.limit else "FAIL"


@dataclass(frozen=True, slots=True)
class Bench:
    """A bench, and the promise that it measures."""

    promise: str
    run: Callable[[Options], list[Measurement]]


HEADINGS = ("what", "limit", "measured", "", "beside it")


def table(measurements: Sequence[Measurement]) -> str:
    """The measurements as aligned columns."""
    rows = [HEADINGS, *(_cells(measurement) for measurement in measurements)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def failed(measurements: Sequence[Measurement]) -> list[Measurement]:
    return [measurement for measurement in measurements if measurement.verdict == "FAIL"]


def _cells(measurement: Measurement) -> tuple[str, ...]:
    limit = "" if measurement.limit is None else f"≤ {_number(measurement.limit)} {measurement.unit}"
    value = f"{_number(measurement.value)} {measurement.unit}"
    return measurement.what, limit.rstrip(), value.rstrip(), measurement.verdict, measurement.note


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"
