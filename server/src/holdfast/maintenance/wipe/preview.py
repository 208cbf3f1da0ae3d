"""The preview of a wipe."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from backup_engine.frozen import frozen
from backup_engine.results import ArchiveInfo
from backup_jobs.archives import EVERYTHING
from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.api.parts import Part
from holdfast.kit import clock
from holdfast.maintenance.wipe.models import WipePreview
from holdfast.repositories.engine_queries import archives_of, query_engine
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.runner.inline import InlineCalls
from holdfast.storage.session import Database


def fingerprint(archives: Iterable[Mapping[str, Any]]) -> str:
    """A fingerprint of a set of archives, from their engine ids and independent of their order."""
    identities = "\n".join(sorted(str(archive["id"]) for archive in archives))
    return "sha256:" + hashlib.sha256(identities.encode()).hexdigest()


def identities(archives: Iterable[ArchiveInfo]) -> list[dict[str, Any]]:
    return [{"id": archive.id, "name": archive.name, "start": archive.start.isoformat()} for archive in archives]


def phrase(repository: Repository) -> str:
    return f"WIPE {repository.name}"


@frozen
class Previews:
    database: Database
    inline: InlineCalls
    opener: Opener

    def make(self, caller: Caller, repository: Repository, *, run_compact: bool) -> WipePreview:
        """Read the archives and store the preview. Raise Locked while the repository is busy."""
        archives = self.read_archives(repository)
        preview = WipePreview(
            repository_id=repository.id,
            status="previewed",
            archive_count=len(archives),
            archive_fingerprint=fingerprint(archives),
            archives=archives,
            run_compact=run_compact,
            created_by=caller.username,
            created_at=clock.now(),
        )
        with self.database.writing() as session:
            session.add(preview)
            session.flush()
            details = {"preview_id": preview.public_id, "archives": len(archives)}
            audit.note(session, caller, "wipe.previewed", "repository", repository.id, details)
        return preview

    def read_archives(self, repository: Repository, *, wait_seconds: float | None = None) -> list[dict[str, Any]]:
        """All archives now in the repository, including leftover checkpoints."""
        found = query_engine(
            self.inline,
            self.opener,
            repository,
            lambda engine, location: engine.list_archives(location, EVERYTHING),
            archives_of,
            wait_seconds=wait_seconds,
        )
        return identities(found)


PREVIEWS = Part[Previews]("wipe_previews")
