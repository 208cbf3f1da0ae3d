"""Build archive names from a template."""

import re
from datetime import datetime

from holdfast.errors import Unprocessable
from holdfast.repositories.archive_names import safe, without

PLACEHOLDERS = re.compile(r"\{([^{}]*)\}")
MOST_CHARACTERS = 200


def archive_name(template: str, *, repository: str, now: datetime, refused: str = "") -> str:
    """Return the archive's name, given a template and the time of the backup. Raise Unprocessable if it is not valid.

    The placeholders are `{repository}`, `{now}` (to the millisecond, so that no two backups of a repository get the
    same name) and `{now:FORMAT}` with strftime codes. Each character of `refused` becomes a dash.
    """

    def fill(match: re.Match[str]) -> str:
        word, _, form = match[1].partition(":")
        if word == "repository" and not form:
            return safe(repository)
        if word == "now":
            return now.strftime(form) if form else now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}"
        raise Unprocessable(
            "backup.unknown_placeholder", f"The archive name contains the unknown placeholder {match[0]}."
        )

    name = safe(without(refused, PLACEHOLDERS.sub(fill, template)))[:MOST_CHARACTERS]
    if not name.strip("."):
        raise Unprocessable("backup.bad_archive_name", "The archive name is empty.")
    return name
