"""Formats numbers and times for people."""

from datetime import UTC, datetime

UNKNOWN = "-"
LEAST_FOR_SPEED = 1_000_000
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")


def size(number: float | None) -> str:
    """A size in decimal units, as disks are sold and as the engine reports it."""
    if number is None:
        return UNKNOWN
    value = float(number)
    for unit in _SIZES:
        if abs(value) < 999.95 or unit == _SIZES[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError


def count(number: int | None, noun: str = "", plural: str = "") -> str:
    """`1,204 files`, `1 file`."""
    if number is None:
        return UNKNOWN
    if not noun:
        return f"{number:,}"
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def speed(number: float | None, seconds: float | None) -> str | None:
    """Bytes per second; None for too few bytes or too short a time."""
    return (
        f"{size(number / seconds)}/s" if number and number >= LEAST_FOR_SPEED and seconds and seconds >= 0.05 else None
    )


def duration(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} days"


def moment(stamp: str | None) -> datetime | None:
    """A time from the service, in the user's zone."""
    if not stamp:
        return None
    try:
        parsed = datetime.fromisoformat(stamp)
    except (TypeError, ValueError):
        return None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone()


def when(stamp: str | None) -> str:
    """Date and time with the user's time zone."""
    local = moment(stamp)
    return f"{local:%Y-%m-%d %H:%M:%S %Z}" if local else UNKNOWN


def age(stamp: str | None) -> str:
    """How long ago a time was: `3 h ago`."""
    local = moment(stamp)
    if local is None:
        return UNKNOWN
    seconds = (datetime.now(UTC) - local).total_seconds()
    if seconds < 0:
        return when(stamp)
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds // unit)} {name} ago"
    return f"{int(seconds // 86400)} days ago"
