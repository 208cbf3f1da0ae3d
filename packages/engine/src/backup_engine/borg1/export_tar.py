"""``borg export-tar``: an archive, or a part of it, as a tar stream on standard output."""

from backup_engine.borg1 import arguments
from backup_engine.requests import ExportTarRequest, RepositoryLocation


def command(location: RepositoryLocation, request: ExportTarRequest, lock_wait: int) -> tuple[str, ...]:
    return (
        *("--log-json", "--lock-wait", str(lock_wait)),
        *(("--progress",) if request.progress else ()),
        "export-tar",
        *(f"--exclude={arguments.archived_path(path)}" for path in request.excluded_trees),
        *(f"--exclude={arguments.single_item(path)}" for path in request.excluded_paths),
        *_strip_components(request),
        *("--", arguments.archive(location, request.archive), "-"),
        *(arguments.archived_path(path) for path in request.paths),
        *(arguments.pattern(pattern) for pattern in request.patterns),
    )


def _strip_components(request: ExportTarRequest) -> tuple[str, ...]:
    if not request.strip_components:
        return ()
    return (f"--strip-components={arguments.natural('strip_components', request.strip_components)}",)
