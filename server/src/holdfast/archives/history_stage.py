"""The operation kind `history`: every file of every archive that is not indexed yet."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from holdfast.archives.history.chunks.route import RouteChooser
from holdfast.archives.history.errors import (
    ArchiveGone,
    HistoryError,
    IndexBusy,
    IndexStorageFull,
    IndexUnavailable,
    ListingFailed,
)
from holdfast.archives.history.index import HistoryIndex
from holdfast.archives.history.ingest import IngestResult
from holdfast.archives.indexes import Indexes
from holdfast.archives.params import StageParams
from holdfast.archives.reading import Reader, reader
from holdfast.kit import clock
from holdfast.operations.context import Context
from holdfast.operations.kinds import Kind, Outcome, TryAgain, again_when_interrupted
from holdfast.operations.status import LockMode, Status
from holdfast.repositories import archive_records, store
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.repositories.work import RepositoryWork

log = structlog.get_logger("holdfast.archives")

MOST_TRIES = 3


def kind(opener: Opener, indexes: Indexes, chooser: RouteChooser) -> Kind:
    return Kind(
        name="history",
        category="index",
        limit_group="index",
        lock=LockMode.SHARED,
        params=StageParams,
        run=lambda context: _run(opener, indexes, chooser, context),
        on_interrupted=again_when_interrupted,
    )


@dataclass(slots=True)
class _Tally:
    indexed: int = 0
    failed: int = 0
    removed: int = 0

    def result(self, routes: dict[str, int], reason: str) -> dict[str, Any]:
        return {
            "indexed": self.indexed,
            "failed": self.failed,
            "removed": self.removed,
            "routes": routes,
            "route_reason": reason,
        }


def _run(opener: Opener, indexes: Indexes, chooser: RouteChooser, context: Context) -> Outcome | TryAgain:
    work = RepositoryWork.open(opener, context)
    if work.repository.index_mode != "full":
        return Outcome(Status.COMPLETED, result={"indexed": 0, "reason": "the index mode keeps no file history"})
    if work.repository.history_generation is None:
        indexes.forget(work.repository.uuid)
    index = indexes.writing(work.repository.uuid)
    try:
        return _Stage(work, index, chooser).run()
    except IndexBusy:
        # Whoever writes it now looks again for pending archives before it ends.
        return Outcome(Status.COMPLETED, result={"indexed": 0, "reason": "another run is building this index"})
    except IndexStorageFull:
        sentence = "The disk of the file history is full; free space in the data folder. What was indexed is unchanged."
        return Outcome(Status.FAILED, "archives.index_disk_full", sentence)
    except IndexUnavailable as unavailable:
        return TryAgain("archives.index_unavailable", str(unavailable), delay_seconds=2)


class _Stage:
    def __init__(self, work: RepositoryWork, index: HistoryIndex, chooser: RouteChooser) -> None:
        self._work = work
        self._context = work.context
        self._index = index
        self._chooser = chooser
        self._tally = _Tally()
        self._routes: dict[str, int] = {}

    def run(self) -> Outcome | TryAgain:
        with self._context.database.writing() as session:
            trust_only(session, self._work.repository, self._index)
            known = {archive.engine_id for archive in archive_records.all_of(session, self._work.repository.id)}
        self._tally.removed = self._index.remove(
            archive.engine_id for archive in self._index.archives() if archive.engine_id not in known
        )
        reason = self._index_all()
        if self._context.is_cancelled():
            return Outcome(Status.CANCELLED, result=self._tally.result(self._routes, reason))
        if self._tally.removed:
            self._index.sweep()
        with self._context.database.writing() as session:
            store.note_evidence(session, self._work.repository.id, last_history=clock.now(), last_index=clock.now())
        self._context.log(f"{self._tally.indexed} archives indexed, {self._tally.failed} failed.")
        status = Status.COMPLETED_WITH_WARNINGS if self._tally.failed else Status.COMPLETED
        return Outcome(status, result=self._tally.result(self._routes, reason))

    def _index_all(self) -> str:
        """Index until nothing is pending, also what was added meanwhile; return why archives were read as they were."""
        if not self._pending(set()):
            return ""
        with reader(self._work, self._index, self._chooser) as reading:
            tried: set[int] = set()
            while (pending := self._pending(tried)) and not self._context.is_cancelled():
                archive = pending[0]
                tried.add(archive.id)
                done, total = len(tried) - 1, len(tried) - 1 + len(pending)
                self._context.report(
                    current=done,
                    total=total,
                    progress_percent=round(100 * done / total, 1),
                    message=f"Indexing {archive.name}",
                )
                self._index_one(reading, archive)
            return reading.reason

    def _pending(self, tried: set[int]) -> list[Archive]:
        with self._context.database.reading() as session:
            return [one for one in pending_archives(session, self._work.repository.id) if one.id not in tried]

    def _index_one(self, reading: Reader, archive: Archive) -> None:
        try:
            result = reading.read(archive, self._base(archive))
        except ArchiveGone:
            self._context.log(f"{archive.name}: not in the repository any more.")
            return
        except (IndexBusy, IndexStorageFull, IndexUnavailable):
            raise
        except (ListingFailed, HistoryError) as failure:
            self._tally.failed += 1
            self._context.log(f"{archive.name}: failed: {failure}")
            self._note_failure(archive, str(failure))
            return
        self._tally.indexed += 1
        self._routes[result.route] = self._routes.get(result.route, 0) + 1
        self._context.log(f"{archive.name}: {result.entries} files, read by {result.route}.")
        self._note_success(archive, result)

    def _base(self, archive: Archive) -> str | None:
        """The nearest indexed archive of the series: a hint that saves work and changes no result."""
        indexed = {one.engine_id for one in self._index.archives()}
        with self._context.database.reading() as session:
            statement = (
                select(Archive.engine_id, Archive.start)
                .where(Archive.repository_id == archive.repository_id, Archive.series == archive.series)
                .order_by(Archive.start)
            )
            candidates = [
                (abs((row.start - archive.start).total_seconds()), row.engine_id) for row in session.execute(statement)
            ]
        near = [candidate for candidate in candidates if candidate[1] in indexed and candidate[1] != archive.engine_id]
        return min(near)[1] if near else None

    def _note_success(self, archive: Archive, result: IngestResult) -> None:
        self._update(
            archive,
            history_state="indexed",
            history_indexed_at=clock.now(),
            history_rows=result.entries,
            history_error=None,
        )

    def _note_failure(self, archive: Archive, reason: str) -> None:
        self._update(
            archive, history_state="failed", history_error=reason[:1000], history_attempts=archive.history_attempts + 1
        )

    def _update(self, archive: Archive, **values: Any) -> None:
        with self._context.database.writing() as session:
            session.execute(update(Archive).where(Archive.id == archive.id).values(**values))


def pending_archives(session: Session, repository_id: int) -> Sequence[Archive]:
    """What is to be indexed, oldest first; what failed is tried a few times more."""
    statement = (
        select(Archive)
        .where(
            Archive.repository_id == repository_id,
            (Archive.history_state == "pending")
            | ((Archive.history_state == "failed") & (Archive.history_attempts < MOST_TRIES)),
        )
        .order_by(Archive.start, Archive.id)
    )
    return session.scalars(statement).all()


def trust_only(session: Session, repository: Repository, index: HistoryIndex) -> None:
    """Make the stored states say what this index has: no more, no less."""
    indexed = {archive.engine_id: archive.entries for archive in index.archives()}
    store.note_evidence(session, repository.id, history_generation=index.generation)
    for archive in archive_records.all_of(session, repository.id):
        if archive.engine_id in indexed:
            archive.history_state = "indexed"
            archive.history_indexed_at = archive.history_indexed_at or clock.now()
            archive.history_rows = indexed[archive.engine_id]
        elif archive.history_state == "indexed":
            archive.history_state = "pending"
            archive.history_indexed_at = None
            archive.history_rows = None
    session.flush()


def forget_index(session: Session, repository_id: int) -> None:
    """Have the next run build the index anew."""
    session.execute(update(Repository).where(Repository.id == repository_id).values(history_generation=None))
    session.execute(
        update(Archive)
        .where(Archive.repository_id == repository_id)
        .values(
            history_state="pending",
            history_indexed_at=None,
            history_rows=None,
            history_error=None,
            history_attempts=0,
        )
    )
