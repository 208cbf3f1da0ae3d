"""``borg list REPOSITORY::ARCHIVE``: list the files of an archive, in records that are identical in every run."""

from backup_engine.borg1 import arguments
from backup_engine.requests import ListFilesRequest, RepositoryLocation

RECORD_FORMAT = (
    "{mode}{TAB}{uid}{TAB}{gid}{TAB}{user}{TAB}{group}{TAB}{size}{TAB}{isomtime}{TAB}{path}{NUL}{linktarget}{NUL}"
)
EXACT_FORMAT = "{bpath!a}{TAB}{type}{mode}{TAB}{size}{NUL}"
"""``!a`` writes the path as an ASCII literal; any other form turns invalid UTF-8 into ``?``."""

COMPLETE_FORMAT = (
    "{bpath!a}{TAB}{type}{mode}{TAB}{uid}{TAB}{gid}{TAB}{user!a}{TAB}{group!a}{TAB}{size}{TAB}{isomtime}"
    "{TAB}{linktarget!a}{NUL}"
)
"""Link targets have no exact form: each byte of invalid UTF-8 becomes ``?``."""


def command(location: RepositoryLocation, request: ListFilesRequest, lock_wait: int) -> tuple[str, ...]:
    return (
        *("--log-json", "--lock-wait", str(lock_wait)),
        *("list", f"--format={_format(request)}"),
        *(f"--exclude={arguments.archived_path(path)}" for path in request.excluded_trees),
        *(f"--exclude={arguments.pattern(pattern)}" for pattern in request.excludes),
        *("--", arguments.archive(location, request.archive)),
        *(arguments.archived_path(path) for path in request.paths),
    )


def _format(request: ListFilesRequest) -> str:
    if request.complete:
        return COMPLETE_FORMAT
    return EXACT_FORMAT if request.exact else RECORD_FORMAT
