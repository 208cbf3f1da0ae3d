"""Answers that ask the engine itself, through the repository's lane and bounded in time."""

from dataclasses import dataclass

from backup_engine.outcome import ARCHIVE_MISSING
from backup_engine.parse import ArchiveInfo, GarbledOutput, parse_archives
from backup_engine.requests import ListArchivesRequest
from backup_jobs.host import SUCCEEDED
from holdfast.archives.history.answers import BrowsePage
from holdfast.archives.history.errors import InvalidCursor, ListingFailed
from holdfast.archives.live_browse import page_of_listing
from holdfast.archives.reading import listing_command
from holdfast.archives.schemas import LiveArchive, LiveList
from holdfast.errors import Unprocessable
from holdfast.kit.cursor import bad_cursor
from holdfast.operations.queue import lane_of
from holdfast.repositories import archive_records, errors, store
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.repositories.series import series_of
from holdfast.runner.inline import InlineCalls
from holdfast.storage.session import Database


@dataclass(frozen=True, slots=True)
class LiveAnswers:
    database: Database
    inline: InlineCalls
    opener: Opener

    def archives(self, repository: Repository) -> LiveList:
        """The engine's own list of archives, now."""
        engine, location = self.opener.engine(repository), self.opener.location(repository)
        with self.inline.hold(lane_of(repository.id), subject=store.subject(repository)) as hold:
            step = hold.run(engine.list_archives(location, ListArchivesRequest()))
            if step.outcome.status not in SUCCEEDED:
                raise errors.refused_by_engine(step.outcome)
            try:
                listed = parse_archives(step.stdout.read_bytes())
            except (GarbledOutput, OSError) as error:
                raise Unprocessable("engine.failed", "The engine's list of archives was cut short.") from error
        with self.database.reading() as session:
            known = {archive.engine_id: archive.id for archive in archive_records.all_of(session, repository.id)}
        template = repository.archive_name_template
        return LiveList(archives=[_told(archive, known.get(archive.id), template) for archive in listed])

    def browse(
        self, repository: Repository, archive: Archive, directory: bytes, limit: int, cursor: str | None
    ) -> BrowsePage:
        """A directory of an archive that is not indexed, from the engine's listing."""
        archive_records.require_present(archive)
        engine, location = self.opener.engine(repository), self.opener.location(repository)
        with self.inline.hold(lane_of(repository.id), subject=store.subject(repository)) as hold:
            step = hold.run(listing_command(engine, location, archive))
            if step.outcome.reason == ARCHIVE_MISSING:
                raise archive_records.unknown(archive.id)
            if step.outcome.status not in SUCCEEDED:
                raise errors.refused_by_engine(step.outcome)
            try:
                return page_of_listing(step.stdout, directory, limit, cursor)
            except ListingFailed as error:
                raise Unprocessable("engine.failed", "The engine's listing was cut short.") from error
            except InvalidCursor as error:
                raise bad_cursor() from error


def _told(archive: ArchiveInfo, archive_id: int | None, template: str) -> LiveArchive:
    return LiveArchive(
        name=archive.name,
        id=archive.id,
        start=archive.start,
        end=archive.end,
        comment=archive.comment or None,
        hostname=archive.hostname,
        username=archive.username,
        series=series_of(archive.name, template),
        archive_id=archive_id,
    )
