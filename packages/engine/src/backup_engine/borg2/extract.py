"""``borg extract``: restore files into the working folder, or write one file to standard output."""

from backup_engine.borg1.extract import flags, require_destination
from backup_engine.borg2 import arguments
from backup_engine.requests import ExtractRequest, RepositoryLocation


def command(location: RepositoryLocation, request: ExtractRequest, lock_wait: int) -> tuple[str, ...]:
    """Raise InvalidRequest if files are to be written and no destination is given."""
    require_destination(request)
    return (
        *arguments.common(location, lock_wait, *(() if request.stdout else ("--progress",))),
        *("extract", *flags(request)),
        *arguments.exclusions(request),
        *("--", arguments.archive(request.archive)),
        *arguments.wanted(request),
    )
