"""Archive names from a template."""

import re
from datetime import datetime

from holdfast.errors import Unprocessable
from holdfast.repositories.archive_names import safe, without

PLACEHOLDERS = re.compile(r"\{([^{}]*)\}")
MOST_CHARACTERS = 200


def archive_name(template: str, *, repository: str, now: datetime, refused: str = "") -> str:
    """Given a template and the time of the backup, return the archive's name. Raise Unprocessable if it names nothing.

    Known are `{repository}`, `{now}` (to the millisecond, so that no two backups of a repository get one name) and
    `{now:FORMAT}` with the letters of strftime. Each character of `refused` becomes a dash.
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
