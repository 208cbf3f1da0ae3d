"""Answers that ask the engine itself, through the repository's lane and bounded in time."""

from functools import partial

from backup_engine.requests import ListArchivesRequest
from backup_engine.results import ArchiveInfo
from backup_jobs.host import Step
from holdfast.api.parts import Part
from holdfast.api.prepared import Written
from holdfast.archives.history.answers import BrowsePage
from holdfast.archives.history.errors import InvalidCursor, ListingFailed
from holdfast.archives.live_browse import page_of_listing
from holdfast.archives.reading import listing_command
from holdfast.archives.schemas import LiveArchive, LiveList
from holdfast.errors import Unprocessable
from holdfast.kit.cursor import bad_cursor
from holdfast.kit.frozen import frozen
from holdfast.repositories import archive_records
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.asking import archives_of, ask
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.repositories.series import series_of
from holdfast.runner.engine_requests import Asking
from holdfast.runner.inline import InlineCalls
from holdfast.storage.session import Database


@frozen
class LiveAnswers:
    database: Database
    inline: InlineCalls
    opener: Opener

    async def archives(self, asking: Asking, user_id: int, repository: Repository) -> Written:
        """The engine's own list of archives (LiveList), now. Many requests of a user at once share one run."""
        return await asking.run(user_id, partial(self._archives, repository), same=("archives", repository.id))

    async def browse(self, asking: Asking, user_id: int, folder: "EngineFolder") -> BrowsePage:
        """A folder of an archive that is not indexed, from the engine's listing."""
        archive_records.require_present(folder.archive)
        return await asking.run(user_id, partial(self._browse, folder), same=folder.same)

    def _archives(self, repository: Repository) -> Written:
        listed = ask(
            self.inline,
            self.opener,
            repository,
            lambda engine, location: engine.list_archives(location, ListArchivesRequest()),
            archives_of,
        )
        with self.database.reading() as session:
            known = archive_records.ids_by_engine_id(session, repository.id)
        template = repository.archive_name_template
        told = [_told(archive, known.get(archive.id), template) for archive in listed]
        return Written.of(LiveList(archives=told))

    def _browse(self, folder: "EngineFolder") -> BrowsePage:
        def read(step: Step) -> BrowsePage:
            try:
                return page_of_listing(step.stdout, folder.directory, folder.limit, folder.cursor, folder.text)
            except ListingFailed as error:
                raise Unprocessable("engine.failed", "The engine's listing was cut short.") from error
            except InvalidCursor as error:
                raise bad_cursor() from error

        return ask(
            self.inline,
            self.opener,
            folder.repository,
            lambda engine, location: listing_command(engine, location, folder.archive),
            read,
            missing=archive_records.unknown(folder.archive.id),
        )


@frozen
class EngineFolder:
    """A page of a folder that the engine is asked for."""

    repository: Repository
    archive: Archive
    directory: bytes
    limit: int
    cursor: str | None
    text: str

    @property
    def same(self) -> tuple[object, ...]:
        return ("browse", self.archive.id, self.directory, self.limit, self.cursor, self.text)


LIVE_ANSWERS = Part[LiveAnswers]("live_answers")


def _told(archive: ArchiveInfo, archive_id: int | None, template: str) -> LiveArchive:
    return LiveArchive.from_row(
        archive, comment=archive.comment or None, series=series_of(archive.name, template), archive_id=archive_id
    )
