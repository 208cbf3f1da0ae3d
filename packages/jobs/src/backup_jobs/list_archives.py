"""`archives.list`: list all archives of the repository for the service's index."""

from collections.abc import Iterator
from typing import Any

from backup_engine.causes import ARCHIVES_UNREADABLE
from backup_engine.requests import InfoRequest, ListArchivesRequest
from backup_engine.results import ArchiveInfo, GarbledOutput, parse_archives
from backup_jobs.archives import document, info_now
from backup_jobs.endings import Completed, Ended, Failed
from backup_jobs.work import EvidenceUnknown, Work, ended_without_success, readable, warnings_of
from backup_protocol import ListBlock

STEP, NAMES, LOOK = "list", "names", "look-"
MOST_LOOKED_AT = 200
"""Maximum number of archives, newest first, that are read one by one to find damaged ones."""
CUT_SHORT = "The engine's list of archives was cut short or garbled; nothing was changed."


def run(work: Work[ListBlock]) -> Ended:
    """Read the complete list; an incomplete one must not be mistaken for it."""
    step = work.host.step(STEP, work.engine.list_archives(work.location, ListArchivesRequest()))
    by_name = step.outcome.error_key in ARCHIVES_UNREADABLE
    if by_name:
        work.host.log("The engine cannot read all archives, so only their names are listed.")
        step = work.host.step(NAMES, work.engine.list_archives(work.location, ListArchivesRequest(names_only=True)))
    if bad := ended_without_success(work.host, step):
        return bad
    try:
        listed = parse_archives(step.stdout.read_bytes())
    except (GarbledOutput, OSError):
        return Failed("engine.failed", CUT_SHORT, step.exit.code)
    archives = tuple(document(step.stdout)["archives"])
    details = {"archive_count": len(archives), **(_info(work) if work.block.with_info else {})}
    warnings = (*warnings_of(step.accumulator), *(_unreadable(work, listed) if by_name else ()))
    return Completed(step.exit.code, step.is_warned or by_name, warnings=warnings, details=details, items=archives)


def _unreadable(work: Work[ListBlock], archives: list[ArchiveInfo]) -> Iterator[dict[str, Any]]:
    """Yield a warning for each archive that the engine cannot read on its own either."""
    newest = sorted(archives, key=lambda archive: archive.start, reverse=True)[:MOST_LOOKED_AT]
    for number, archive in enumerate(newest):
        request = InfoRequest(work.engine.address(archive.name, archive.id))
        step = work.host.step(f"{LOOK}{number}", work.engine.info(work.location, request), quiet=True)
        if not step.succeeded:
            name = readable(archive.name)
            yield {
                "path": None,
                "message": f"The engine cannot read the archive {name}; only its name is listed.",
            }


def _info(work: Work[ListBlock]) -> dict[str, Any]:
    try:
        return {"info": info_now(work, "info").document}
    except EvidenceUnknown as unknown:
        work.host.log(f"The sizes of the repository could not be read: {unknown}")
        return {}
