"""Progress of a backup relative to the size of the last complete one."""

from typing import Any


def measured(size: int, expected: int, speed: int | None) -> dict[str, Any]:
    """Percentage and seconds remaining, given the bytes read, the bytes expected and the bytes per second.

    Beyond the expected size both are unknown: the sources have grown by an unknown amount.
    """
    if size > expected:
        return {"progress_percent": None, "estimated_time_remaining": None, "more_than_expected": True}
    return {
        "progress_percent": round(min(99.0, size * 100 / expected), 1),
        "estimated_time_remaining": round((expected - size) / speed) if speed else None,
        "more_than_expected": False,
    }
