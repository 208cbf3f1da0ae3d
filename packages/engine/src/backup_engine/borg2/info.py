"""``borg repo-info`` and ``borg info``: facts about a repository or one archive. Neither reports sizes on disk."""

from backup_engine.borg2 import arguments
from backup_engine.requests import InfoRequest, RepositoryLocation


def command(location: RepositoryLocation, request: InfoRequest, lock_wait: int) -> tuple[str, ...]:
    before = arguments.common(location, lock_wait)
    if request.every_archive:
        return (*before, "info", "--json", "--match-archives=sh:*")
    if request.archive is None:
        return (*before, "repo-info", "--json")
    return (*before, "info", "--json", "--", arguments.archive(request.archive))
