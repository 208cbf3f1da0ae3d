"""Answers that come directly from the engine, through the repository's lane and with a time limit.

Answers are remembered with a proof; while the proof holds, no engine runs (`live_answer_cache`).
"""

from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Any

from backup_engine.frozen import frozen
from backup_engine.requests import ListArchivesRequest
from backup_engine.results import ArchiveInfo
from backup_jobs.host import Step
from holdfast.api.parts import Part
from holdfast.api.prepared import JsonResult
from holdfast.archives.archive_reader import listing_command
from holdfast.archives.live_answer_cache import LiveAnswerCache, Question, StateBefore
from holdfast.archives.live_browse import page_of_listing
from holdfast.archives.schemas import LiveArchive, LiveList
from holdfast.errors import Unprocessable
from holdfast.history.answers import BrowsePage
from holdfast.history.errors import InvalidCursor, ListingFailed
from holdfast.kit.cursor import bad_cursor
from holdfast.operations.queue import lane_of
from holdfast.repositories import archive_records
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.engine_queries import archives_of, query_engine
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.repositories.series import series_of
from holdfast.runner.engine_requests import EngineRequest
from holdfast.runner.inline import InlineCalls
from holdfast.runner.lane_ticket import reading_without_a_lane
from holdfast.storage.session import Database


@frozen
class LiveAnswers:
    database: Database
    inline: InlineCalls
    opener: Opener
    cache: LiveAnswerCache = field(default_factory=LiveAnswerCache)

    async def archives(self, asking: EngineRequest, user_id: int, repository: Repository) -> JsonResult:
        """Return the engine's current list of archives (LiveList). Simultaneous requests of a user share one run."""
        return await asking.run(user_id, partial(self._archives, repository), same=("archives", repository.id))

    async def browse(self, asking: EngineRequest, user_id: int, folder: "EngineFolder") -> BrowsePage:
        """Return a folder of an archive that is not indexed, from the engine's listing."""
        archive_records.require_present(folder.archive)
        return await asking.run(user_id, partial(self._browse, folder), same=folder.same)

    def _archives(self, repository: Repository) -> JsonResult:
        question = ("archives",)
        remembered: JsonResult | None = self._remembered(repository, question, partial(self._known_ids, repository))
        if remembered is not None:
            return remembered
        before = StateBefore(repository)
        listed = query_engine(
            self.inline,
            self.opener,
            repository,
            before.recording(lambda engine, location: engine.list_archives(location, ListArchivesRequest())),
            archives_of,
        )
        known, template = self._known_ids(repository), repository.archive_name_template
        told = [_told(archive, known.get(archive.id), template) for archive in listed]
        written = JsonResult.of(LiveList(archives=told))
        self.cache.keep(question, before, known, written)
        return written

    def _known_ids(self, repository: Repository) -> dict[str, int]:
        with self.database.reading() as session:
            return archive_records.ids_by_engine_id(session, repository.id)

    def _browse(self, folder: "EngineFolder") -> BrowsePage:
        def read(step: Step) -> BrowsePage:
            try:
                return page_of_listing(step.stdout, folder.directory, folder.limit, folder.cursor, folder.text)
            except ListingFailed as error:
                raise Unprocessable("engine.failed", "The engine's listing was cut short.") from error
            except InvalidCursor as error:
                raise bad_cursor() from error

        archive = folder.archive.engine_id, folder.archive.name
        remembered: BrowsePage | None = self._remembered(folder.repository, folder.same, lambda: archive)
        if remembered is not None:
            return remembered
        before = StateBefore(folder.repository)
        page = query_engine(
            self.inline,
            self.opener,
            folder.repository,
            before.recording(lambda engine, location: listing_command(engine, location, folder.archive)),
            read,
            missing=archive_records.unknown(folder.archive.id),
        )
        self.cache.keep(folder.same, before, archive, page)
        return page

    def _remembered(self, repository: Repository, question: Question, given: Callable[[], object]) -> Any:
        """Return the answer to a question if it needs no engine; else None. `given` is what else the answer depends on.

        If exclusive work keeps readers off the lane, return None, so that the request waits as it would for an engine.
        """
        if not self.cache.has(repository.id, question):
            return None
        with reading_without_a_lane() as reading:
            if self.inline.is_kept_from_readers(lane_of(repository.id)):
                return None
            program = self.opener.engine(repository).program
            answer = self.cache.answer(question, repository, program, given())
            reading.found = answer is not None
            return answer


@frozen
class EngineFolder:
    """A page of a folder, requested from the engine."""

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
