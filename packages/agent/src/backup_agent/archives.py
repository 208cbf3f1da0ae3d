"""What the repository itself tells about its archives and sizes."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backup_agent.job_work import EvidenceUnknown, Work, readable
from backup_engine.outcome import SENTENCES
from backup_engine.parse import ArchiveInfo, ArchiveStats, GarbledOutput, InfoResult, parse_archives, parse_info
from backup_engine.requests import InfoRequest, ListArchivesRequest
from backup_protocol import Stats


@dataclass(frozen=True, slots=True)
class Info:
    """What `info` tells, read and as it was printed."""

    result: InfoResult
    document: dict[str, Any]


def archives_now(work: Work, question: str) -> list[ArchiveInfo]:
    """All archives. Raise EvidenceUnknown if the repository cannot be asked."""
    step = work.find_out(question, work.engine.list_archives(work.location, ListArchivesRequest()))
    try:
        return parse_archives(step.stdout.read_bytes())
    except (GarbledOutput, OSError) as error:
        raise EvidenceUnknown("engine.failed", SENTENCES["engine.failed"]) from error


def info_now(work: Work, question: str, archive: str | None = None) -> Info:
    """The repository, or one of its archives. Raise EvidenceUnknown if it cannot be asked."""
    step = work.find_out(question, work.engine.info(work.location, InfoRequest(archive)))
    try:
        return Info(parse_info(step.stdout.read_bytes()), document(step.stdout))
    except (GarbledOutput, OSError) as error:
        raise EvidenceUnknown("engine.failed", SENTENCES["engine.failed"]) from error


def document(file: Path) -> dict[str, Any]:
    """The JSON object that the engine printed. What is no text in it becomes replacement characters."""
    content: dict[str, Any] = _storable(json.loads(file.read_bytes().decode("utf-8", "surrogateescape")))
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


def stats_of(stats: ArchiveStats) -> Stats:
    return Stats(stats.original_size, stats.compressed_size, stats.deduplicated_size, stats.nfiles)
