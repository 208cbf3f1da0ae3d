"""The archives that a repository really holds, asked of the engine."""

from collections.abc import Iterable
from pathlib import Path

from backup_engine.outcome import SENTENCES
from backup_engine.parse import ArchiveInfo, GarbledOutput, parse_archives
from backup_engine.requests import ListArchivesRequest
from holdfast.repositories.work import EvidenceUnknown, RepositoryWork

EVERYTHING = ListArchivesRequest(consider_checkpoints=True)
"""With left-over checkpoints: they are archives too, and can be removed."""


def read_archives(stdout: Path) -> list[ArchiveInfo]:
    """Given the spooled output of a listing, return all archives. Raise EvidenceUnknown if it is not whole."""
    try:
        return parse_archives(stdout.read_bytes())
    except (GarbledOutput, OSError) as error:
        raise EvidenceUnknown("engine.failed", SENTENCES["engine.failed"]) from error


def archives_now(work: RepositoryWork, name: str) -> list[ArchiveInfo]:
    """List the archives, whatever else has been asked of the operation. Raise EvidenceUnknown if that fails."""
    return read_archives(work.find_out(name, work.engine.list_archives(work.location, EVERYTHING)).stdout)


def ids(archives: Iterable[ArchiveInfo]) -> frozenset[str]:
    return frozenset(archive.id for archive in archives)
