"""``borg export-tar``: an archive, or part of it, as a tar stream on standard output."""

from backup_engine.borg2 import arguments
from backup_engine.requests import ExportTarRequest, RepositoryLocation


def command(location: RepositoryLocation, request: ExportTarRequest, lock_wait: int) -> tuple[str, ...]:
    return (
        *arguments.common(location, lock_wait, *(("--progress",) if request.progress else ())),
        "export-tar",
        *arguments.exclusions(request),
        *("--", arguments.archive(request.archive), "-"),
        *arguments.wanted(request),
    )
