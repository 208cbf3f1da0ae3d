"""``borg extract``: restore files into the working folder, or write one file to standard output."""

from backup_engine.borg1 import arguments
from backup_engine.requests import ExtractRequest, InvalidRequest, RepositoryLocation


def command(location: RepositoryLocation, request: ExtractRequest, lock_wait: int) -> tuple[str, ...]:
    """Raise InvalidRequest if files are to be written and no destination is given."""
    require_destination(request)
    return (
        *("--log-json", "--lock-wait", str(lock_wait)),
        *(() if request.stdout else ("--progress",)),
        *("extract", *flags(request)),
        *arguments.exclusions(request),
        *("--", arguments.archive(location, request.archive)),
        *arguments.wanted(request),
    )


def flags(request: ExtractRequest) -> tuple[str, ...]:
    return (
        *(("--dry-run",) if request.dry_run else ()),
        *(("--list",) if request.list_files else ()),
        *(("--stdout",) if request.stdout else ()),
        *(("--sparse",) if request.sparse else ()),
        *(("--noflags",) if request.without_flags else ()),
    )


def require_destination(request: ExtractRequest) -> None:
    if not (request.dry_run or request.stdout or request.destination):
        raise InvalidRequest("A restore needs a destination folder.")
    if request.destination is not None and not request.destination.startswith("/"):
        raise InvalidRequest(f"The destination {request.destination!r} is not absolute.")
