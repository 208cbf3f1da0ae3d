"""The exit codes of `holdfast`. `docs/cli.md` has the same table; a test compares the two."""

DONE = 0
FAILED = 1
USAGE = 2
NOT_ALLOWED = 3
NOT_FOUND = 4
CONFLICT = 5
UNREACHABLE = 6
WARNINGS = 7
ATTENTION = 8
INTERRUPTED = 130

OF_HTTP_STATUS = {
    400: USAGE,
    401: NOT_ALLOWED,
    403: NOT_ALLOWED,
    404: NOT_FOUND,
    409: CONFLICT,
    413: USAGE,
    422: USAGE,
    423: CONFLICT,
    429: NOT_ALLOWED,
    503: UNREACHABLE,
}


def of_job(status: str) -> int:
    """Given the status of a job that has ended, return the exit code of the command that followed it."""
    if status == "completed_with_warnings":
        return WARNINGS
    return DONE if status == "completed" else FAILED
