"""When each repository starts within its spread: at the same offset every day, known in advance."""

from datetime import timedelta
from hashlib import sha256


def offset(schedule_uuid: str, repository_uuid: str, spread_minutes: int) -> timedelta:
    """Return how long after the due time this repository starts: 0 to spread_minutes - 1 minutes."""
    if spread_minutes <= 0:
        return timedelta(0)
    digest = sha256(f"{schedule_uuid}\0{repository_uuid}".encode()).digest()
    return timedelta(minutes=int.from_bytes(digest[:8], "big") % spread_minutes)
