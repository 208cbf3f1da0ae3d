"""`archives.list`: all archives of the repository, for the service's index."""

from typing import Any

from backup_agent.archives import document, info_now
from backup_agent.job_work import Completed, Ended, EvidenceUnknown, Failed, Work, ended_without_success, is_warned
from backup_engine.outcome import SENTENCES
from backup_engine.parse import GarbledOutput, parse_archives
from backup_engine.requests import ListArchivesRequest


def run(work: Work) -> Ended:
    step = work.steps.run("list", work.engine.list_archives(work.location, ListArchivesRequest()))
    if bad := ended_without_success(step):
        return bad
    try:
        parse_archives(step.stdout.read_bytes())  # a list that is not whole must not be taken for one
    except (GarbledOutput, OSError):
        return Failed("engine.failed", SENTENCES["engine.failed"], step.exit.code)
    archives = document(step.stdout)["archives"]
    details: dict[str, Any] = {"archive_count": len(archives)}
    try:
        details["info"] = info_now(work, "info").document
    except EvidenceUnknown as unknown:
        work.steps.say(f"The sizes of the repository could not be read: {unknown}")
    return Completed(step.exit.code, is_warned(step), details=details, items=tuple(archives))
