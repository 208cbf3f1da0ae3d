"""Archives and sizes, as read from the repository itself."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from backup_engine import bounded_json
from backup_engine.causes import SENTENCES
from backup_engine.frozen import frozen
from backup_engine.requests import InfoRequest, ListArchivesRequest
from backup_engine.results import ArchiveInfo, GarbledOutput, InfoResult, parse_archives, parse_info
from backup_jobs.work import EvidenceUnknown, OpenedRepository, readable

EVERYTHING = ListArchivesRequest(consider_checkpoints=True)
"""Includes left-over checkpoints: they are archives too, and can be removed."""


@frozen
class Info:
    """Output of the engine's `info`, both parsed and as printed."""

    result: InfoResult
    document: dict[str, Any]


def read_archives(stdout: Path) -> list[ArchiveInfo]:
    """Parse the spooled output of a listing. Raise EvidenceUnknown if it is incomplete."""
    try:
        return parse_archives(stdout.read_bytes())
    except (GarbledOutput, OSError) as error:
        raise EvidenceUnknown("engine.failed", SENTENCES["engine.failed"]) from error


def archives_now(
    repository: OpenedRepository, question: str, request: ListArchivesRequest = EVERYTHING
) -> list[ArchiveInfo]:
    """List the archives, even for a cancelled job. Raise EvidenceUnknown if that fails."""
    command = repository.engine.list_archives(repository.location, request)
    return read_archives(repository.evidence_step(question, command).stdout)


def info_now(repository: OpenedRepository, question: str, archive: str | None = None) -> Info:
    """Read facts about the repository or one of its archives. Raise EvidenceUnknown if that fails."""
    step = repository.evidence_step(question, repository.engine.info(repository.location, InfoRequest(archive)))
    try:
        return Info(parse_info(step.stdout.read_bytes()), document(step.stdout))
    except (GarbledOutput, OSError) as error:
        raise EvidenceUnknown("engine.failed", SENTENCES["engine.failed"]) from error


def document(file: Path) -> dict[str, Any]:
    """Parse the JSON object printed by the engine. Invalid UTF-8 becomes replacement characters."""
    content: dict[str, Any] = _storable(bounded_json.document(file.read_bytes()))
    return content


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, dict):
        return {readable(key): _storable(item) for key, item in value.items()}
    return value


def described(archive: ArchiveInfo) -> dict[str, Any]:
    return {
        "name": readable(archive.name),
        "id": archive.id,
        "start": archive.start.isoformat(),
        "end": archive.end.isoformat() if archive.end else None,
    }


def ids(archives: Iterable[ArchiveInfo]) -> frozenset[str]:
    return frozenset(archive.id for archive in archives)
