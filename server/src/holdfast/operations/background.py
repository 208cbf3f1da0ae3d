"""The kernel's housekeeping: keeps its tables and logs within their limits."""

from datetime import timedelta
from pathlib import Path

from holdfast.kit import clock
from holdfast.operations import logs, readers
from holdfast.settings import Settings
from holdfast.storage.session import Database

OUTBOX_KEPT = timedelta(hours=24)


def tidy(database: Database, settings: Settings) -> None:
    """Delete old outbox rows that every reader has read, and the oldest logs beyond the limits on age or size."""
    with database.writing() as session:
        readers.forget_old(session, clock.now() - OUTBOX_KEPT)
    tidy_logs(settings)


def tidy_logs(settings: Settings) -> None:
    found = sorted(
        ((file.stat().st_mtime, file.stat().st_size, file) for file in settings.logs_dir.glob("*/*.log")),
        key=lambda entry: entry[0],
        reverse=True,
    )
    oldest = (clock.now() - timedelta(days=settings.log_retention_days)).timestamp()
    kept = 0
    for modified, size, file in found:
        kept += size
        if modified < oldest or kept > settings.log_retention_mib * 1024 * 1024:
            _remove(file)


def _remove(file: Path) -> None:
    logs.remove(file)
    with_siblings = any(file.parent.iterdir())
    if not with_siblings:
        file.parent.rmdir()
