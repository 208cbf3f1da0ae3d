"""Progress of a backup, measured against the size of the last complete one."""

from typing import Any


def measured(size: int, expected: int, speed: int | None) -> dict[str, Any]:
    """Given bytes read so far, bytes expected and bytes per second, return percent and seconds left.

    Beyond the expected size neither is known: the sources have grown by an unknown amount.
    """
    if size > expected:
        return {"progress_percent": None, "estimated_time_remaining": None, "more_than_expected": True}
    return {
        "progress_percent": round(min(99.0, size * 100 / expected), 1),
        "estimated_time_remaining": round((expected - size) / speed) if speed else None,
        "more_than_expected": False,
    }
