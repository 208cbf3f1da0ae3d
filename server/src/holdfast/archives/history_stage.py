"""The operation kind `history`: index every file of every archive that is not indexed yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from backup_jobs.host import Cancelled
from holdfast.archives.archive_reader import Reader, reader
from holdfast.archives.indexes import NOT_NOW, NOT_TO_BE_TRUSTED, Indexes
from holdfast.archives.lane_waiters import continuation, waiter_of
from holdfast.archives.measure_archives import measure_archives
from holdfast.archives.repository_not_opened import RepositoryNotOpened
from holdfast.archives.stage_params import StageParams
from holdfast.history.chunks.route import RouteChooser
from holdfast.history.errors import (
    ArchiveGone,
    ArchiveTooLarge,
    HistoryError,
    IndexStorageFull,
    IndexUnavailable,
)
from holdfast.history.excludes import Excludes
from holdfast.kit import clock
from holdfast.operations.context import Context
from holdfast.operations.kinds import Kind, retry_when_interrupted
from holdfast.operations.locks import Access
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.operations.status import Status
from holdfast.repositories import archive_records, store
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.repositories.work import RepositoryWork

if TYPE_CHECKING:
    from holdfast.history.index import HistoryIndex

MOST_TRIES = 3
TRY_AGAIN_SECONDS = 2.0
ANOTHER_RUN = "another run is building this index"
TOO_LARGE = "history.too_large"
UNREADABLE = "history.unreadable"
REASON_CHARACTERS_MOST = 1000
FAILURES_NAMED = 10
NOT_KEPT = "the index mode keeps no file history"


def kind(opener: Opener, indexes: Indexes, chooser: RouteChooser, on_indexed: Callable[[], None]) -> Kind:
    def run(context: Context) -> Outcome | TryAgain:
        try:
            return _Run(history, opener, indexes, chooser, context).run()
        finally:
            on_indexed()

    history = Kind(
        name="history",
        category="index",
        limit_group="index",
        access=Access.READ,
        params=StageParams,
        run=run,
        on_interrupted=retry_when_interrupted,
    )
    return history


@dataclass(slots=True)
class _Tally:
    indexed: int = 0
    failed: int = 0
    removed: int = 0
    routes: dict[str, int] = field(default_factory=dict)
    route_reason: str = ""
    gave_way_to: int | None = None
    failures: list[dict[str, Any]] = field(default_factory=list)

    def note_failure(self, archive: Archive, found: Mapping[str, Any]) -> None:
        if len(self.failures) < FAILURES_NAMED:
            key = found.get("key", UNREADABLE)
            self.failures.append({"archive_id": archive.id, "error_key": key, "message": found["failure"]})

    def result(self) -> dict[str, Any]:
        return asdict(self)


class _Run:
    """One attempt. It may be called again after a restart; what it found and did is stored by name (see `Context`)."""

    def __init__(
        self, history: Kind, opener: Opener, indexes: Indexes, chooser: RouteChooser, context: Context
    ) -> None:
        self._kind = history
        self._work = RepositoryWork.open(opener, context)
        self._context = context
        self._repository = self._work.repository
        self._indexes = indexes
        self._chooser = chooser
        self._tally = _Tally()

    def run(self) -> Outcome | TryAgain:
        if self._repository.index_mode != "full":
            return Outcome(Status.COMPLETED, result={**self._tally.result(), "reason": NOT_KEPT})
        with self._indexes.building(self._repository.uuid) as is_ours:
            if not is_ours:
                # The run that is building the index queues whatever was requested meanwhile: see
                # `_continue_if_anything_is_left`.
                return Outcome(Status.COMPLETED, result={**self._tally.result(), "reason": ANOTHER_RUN})
            return self._build()

    def _build(self) -> Outcome | TryAgain:
        try:
            return self._index_all()
        except Cancelled:
            return Outcome(Status.CANCELLED, result=self._tally.result())
        except RepositoryNotOpened as refused:
            return self._refused(refused)
        except IndexStorageFull:
            sentence = (
                "The disk of the file history is full; free space in the data folder. What was indexed is unchanged."
            )
            return Outcome(Status.FAILED, "archives.index_disk_full", sentence, result=self._tally.result())
        except NOT_TO_BE_TRUSTED as damage:
            self._indexes.forget(self._repository.uuid)
            return TryAgain("archives.index_damaged", f"The file history is rebuilt: {damage}.", TRY_AGAIN_SECONDS)
        except NOT_NOW as unavailable:
            return TryAgain("archives.index_unavailable", f"{unavailable}.", TRY_AGAIN_SECONDS)

    def _refused(self, refused: RepositoryNotOpened) -> Outcome | TryAgain:
        outcome = refused.outcome
        if outcome.error_key == "engine.locked":
            return self._work.try_again("engine.locked", outcome.message)
        return Outcome(Status.FAILED, outcome.error_key, outcome.message, result=self._tally.result())

    # --- indexing -------------------------------------------------------------------------------------------------

    def _index_all(self) -> Outcome:
        index = self._trusted_index()
        self._tally.removed = self._context.once("removed", lambda: {"archives": self._remove_gone(index)})["archives"]
        wanted: list[int] = self._context.once("plan", lambda: {"archives": self._pending()})["archives"]
        if wanted:
            with reader(self._work, index, self._chooser) as reading:
                self._index_each(reading, wanted)
                self._tally.route_reason = reading.reason
        if self._tally.removed:
            index.sweep()
        with self._context.database.writing() as session:
            store.note_evidence(session, self._repository.id, last_history=clock.now(), last_index=clock.now())
        self._context.log(f"{self._tally.indexed} archives indexed, {self._tally.failed} failed.")
        if self._repository.execution_target != "agent":  # an agent reports the sizes with the list
            measure_archives(self._work)
        status = Status.COMPLETED_WITH_WARNINGS if self._tally.failed else Status.COMPLETED
        return Outcome(status, result=self._tally.result(), record=self._continue_if_anything_is_left)

    def _index_each(self, reading: Reader, wanted: list[int]) -> None:
        for number, archive_id in enumerate(wanted):
            if self._context.is_cancelled():
                raise Cancelled
            if number and self._gives_way(archive_id):
                return
            archive = self._archive(archive_id)
            if archive is None:
                continue
            self._context.report(
                current=number,
                total=len(wanted),
                progress_percent=round(100 * number / len(wanted), 1),
                message=f"Indexing {archive.name}",
            )
            self._index_one(reading, archive)

    def _gives_way(self, next_archive: int) -> bool:
        if self._context.kept(_result_name(next_archive)) is not None:
            return False
        if self._context.kept("gave-way") is None and (waiter := waiter_of(self._context)) is not None:
            self._context.once("gave-way", lambda: {"to": waiter})
        gave_way = self._context.kept("gave-way")
        if gave_way is None:
            return False
        self._tally.gave_way_to = gave_way["to"]
        self._context.log(f"Operation {gave_way['to']} is waiting for the repository; the rest follows after it.")
        return True

    def _index_one(self, reading: Reader, archive: Archive) -> None:
        found = self._context.once(_result_name(archive.id), lambda: self._read(reading, archive))
        reading.free()
        if "failure" in found:
            self._tally.failed += 1
            self._tally.note_failure(archive, found)
            self._context.log(f"{archive.name}: failed: {found['failure']} [{found.get('key', UNREADABLE)}]")
            return
        self._tally.indexed += 1
        routes = self._tally.routes
        routes[found["route"]] = routes.get(found["route"], 0) + 1
        self._context.log(f"{archive.name}: {found['entries']} files, read by {found['route']}.")

    def _read(self, reading: Reader, archive: Archive) -> Mapping[str, Any]:
        """Read one archive into the index, and record the result in the store."""
        try:
            result = reading.read(archive, self._base(reading.index, archive))
        except (*NOT_TO_BE_TRUSTED, *NOT_NOW):
            raise
        except ArchiveGone:
            return self._failed(archive, "history.archive_gone", "not in the repository any more")
        except HistoryError as failure:
            return self._failed(archive, key_of(failure), str(failure))
        self._update(
            archive,
            history_state="indexed",
            history_indexed_at=clock.now(),
            history_rows=result.entries,
            history_error=None,
            history_error_key=None,
        )
        return {"entries": result.entries, "route": result.route}

    def _failed(self, archive: Archive, key: str, reason: str) -> Mapping[str, Any]:
        """Record the reason. An archive that is too large remains so, and is not tried again until the index is
        rebuilt.
        """
        attempts = MOST_TRIES if key == TOO_LARGE else archive.history_attempts + 1
        self._update(
            archive,
            history_state="failed",
            history_error=reason[:REASON_CHARACTERS_MOST],
            history_error_key=key,
            history_attempts=attempts,
        )
        return {"failure": reason[:REASON_CHARACTERS_MOST], "key": key}

    def _base(self, index: HistoryIndex, archive: Archive) -> str | None:
        """Return the nearest indexed archive of the series: a hint that saves work and never changes the result."""
        indexed = {one.engine_id for one in index.archives()} - {archive.engine_id}
        statement = select(Archive.engine_id, Archive.start).where(
            Archive.repository_id == archive.repository_id, Archive.series == archive.series
        )
        with self._context.database.reading() as session:
            near = [
                (abs((row.start - archive.start).total_seconds()), row.engine_id)
                for row in session.execute(statement)
                if row.engine_id in indexed
            ]
        return min(near)[1] if near else None

    # --- the store ------------------------------------------------------------------------------------------------

    def _trusted_index(self) -> HistoryIndex:
        """Return the index, recreated if a rebuild was requested or the excluded patterns have changed.

        The stored states of the archives are synchronised with its content.
        """
        seen = self._repository.history_generation
        if not _is_of(seen, self._repository):
            self._indexes.forget(self._repository.uuid)
        index = self._indexes.writing(self._repository.uuid)
        with self._context.database.writing() as session:
            repository = _locked_row(session, self._repository.id)
            if repository is None or repository.history_generation != seen:
                raise IndexUnavailable("the index is to be built in another way since a moment ago")
            trust_only(session, self._repository, index)
        return index

    def _remove_gone(self, index: HistoryIndex) -> int:
        with self._context.database.reading() as session:
            known = {archive.engine_id for archive in archive_records.all_of(session, self._repository.id)}
        return index.remove(one.engine_id for one in index.archives() if one.engine_id not in known)

    def _pending(self) -> list[int]:
        with self._context.database.reading() as session:
            return pending_archives(session, self._repository.id)

    def _archive(self, archive_id: int) -> Archive | None:
        with self._context.database.reading() as session:
            return archive_records.get(session, archive_id)

    def _update(self, archive: Archive, **values: Any) -> None:
        with self._context.database.writing() as session:
            session.execute(update(Archive).where(Archive.id == archive.id).values(**values))

    def _continue_if_anything_is_left(self, session: Session) -> None:
        """Queue what is left when this run gave way, and what was requested while it kept others from building the
        index.
        """
        repository = _locked_row(session, self._repository.id)
        if repository is None or repository.index_mode != "full":
            return
        if repository.history_generation is None or _has_pending(session, self._repository.id):
            continuation(self._kind, self._context.operation)(session)


def key_of(failure: HistoryError) -> str:
    """Return the error key for an archive that could not be indexed."""
    return TOO_LARGE if isinstance(failure, ArchiveTooLarge) else UNREADABLE


def _result_name(archive_id: int) -> str:
    return f"archive-{archive_id}"


def _locked_row(session: Session, repository_id: int) -> Repository | None:
    """Return the repository's row, locked: a rebuild requested now waits for this transaction to end."""
    statement = select(Repository).where(Repository.id == repository_id).with_for_update()
    return session.scalars(statement.execution_options(populate_existing=True)).first()


def pending_archives(session: Session, repository_id: int) -> list[int]:
    """Return the archives to index, oldest first. Failed ones are tried again a few times."""
    statement = (
        select(Archive.id)
        .where(
            Archive.repository_id == repository_id,
            Archive.lost_at.is_(None),
            (Archive.history_state == "pending")
            | ((Archive.history_state == "failed") & (Archive.history_attempts < MOST_TRIES)),
        )
        .order_by(Archive.start, Archive.id)
    )
    return list(session.scalars(statement))


def _has_pending(session: Session, repository_id: int) -> bool:
    statement = select(Archive.id).where(
        Archive.repository_id == repository_id, Archive.history_state == "pending", Archive.lost_at.is_(None)
    )
    return session.scalars(statement.limit(1)).first() is not None


# --- which index the stored states describe ---------------------------------------------------------------------------


def _generation_of(index: HistoryIndex, repository: Repository) -> str:
    return f"{index.generation}:{_patterns(repository)}"


def _is_of(generation: str | None, repository: Repository) -> bool:
    """Return False if a rebuild was requested or the patterns have changed.

    Archives indexed under different patterns must not be compared with each other.
    """
    return generation is not None and generation.endswith(f":{_patterns(repository)}")


def _patterns(repository: Repository) -> str:
    return Excludes(repository.history_index_excludes).fingerprint.hex()


def trust_only(session: Session, repository: Repository, index: HistoryIndex) -> None:
    """Make the stored states match exactly what this index contains."""
    indexed = {archive.engine_id: archive.entries for archive in index.archives()}
    store.note_evidence(session, repository.id, history_generation=_generation_of(index, repository))
    for archive in archive_records.all_of(session, repository.id):
        if archive.engine_id in indexed:
            archive.history_state = "indexed"
            archive.history_indexed_at = archive.history_indexed_at or clock.now()
            archive.history_rows = indexed[archive.engine_id]
            archive.history_error = None
            archive.history_error_key = None
        elif archive.history_state == "indexed":
            archive.history_state = "pending"
            archive.history_indexed_at = None
            archive.history_rows = None
    session.flush()


def forget_index(session: Session, repository_id: int) -> None:
    """Make the next run rebuild the index."""
    session.execute(update(Repository).where(Repository.id == repository_id).values(history_generation=None))
    session.execute(
        update(Archive)
        .where(Archive.repository_id == repository_id)
        .values(
            history_state="pending",
            history_indexed_at=None,
            history_rows=None,
            history_error=None,
            history_error_key=None,
            history_attempts=0,
        )
    )
