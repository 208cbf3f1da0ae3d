"""Find files by name in all repositories that a caller can see: one index after another, within a time limit.

Whatever the caller cannot see is excluded before any search or count. Repositories that cannot contain the name are
skipped (`fleet_names`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, select

from backup_engine.frozen import frozen
from holdfast.access import rights
from holdfast.access.caller import Caller
from holdfast.archives import path_view, paths
from holdfast.archives.archive_index import ArchiveIndex
from holdfast.archives.coverage import ArchiveColumns
from holdfast.archives.fleet_names_updater import KnownRepositories, RepositoryColumns
from holdfast.archives.fleet_schemas import (
    FleetCoverage,
    FleetHistory,
    FleetHit,
    FleetPresence,
    FleetSearchAnswer,
    IncompleteRepository,
)
from holdfast.archives.path_view import Hit
from holdfast.archives.schemas import PathHistoryAnswer
from holdfast.errors import Unavailable
from holdfast.kit import cursor as cursors
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import NOTHING_HIDDEN, HiddenPaths, ServicePlaces
from holdfast.storage.session import Database

if TYPE_CHECKING:
    from holdfast.archives.fleet_names import Holders

SECONDS = 2.0
"""Time limit for one answer. The cursor leads to the rest."""
MOST_INCOMPLETE = 100
MOST_AT_ONCE = 16
"""Number of repositories whose archives are read in one query."""

ARCHIVES = (
    select(*(getattr(Archive, name) for name in ArchiveColumns._fields))
    .where(Archive.repository_id.in_(bindparam("ids", expanding=True)))
    .order_by(Archive.start, Archive.id)
)


@frozen
class FleetQuery:
    """Conditions that a hit must meet besides its name."""

    deleted_only: bool = False
    modified_since: datetime | None = None
    min_size: int | None = None
    max_size: int | None = None
    extension: str | None = None

    def takes(self, hit: Hit) -> bool:
        if self.modified_since is not None and (hit.mtime is None or hit.mtime < self.modified_since):
            return False
        if self.min_size is not None and (hit.size is None or hit.size < self.min_size):
            return False
        if self.max_size is not None and (hit.size is None or hit.size > self.max_size):
            return False
        return self.extension is None or _readable(hit).casefold().endswith(f".{self.extension.casefold().lstrip('.')}")


@dataclass(slots=True)
class FleetSearch:
    """The repositories that one caller can see, searched one after another."""

    database: Database
    index: ArchiveIndex
    places: ServicePlaces
    caller: Caller
    repositories: list[RepositoryColumns]
    known: KnownRepositories
    seconds: float = SECONDS
    clock: Callable[[], float] = time.monotonic
    _unavailable: set[int] = field(default_factory=set)

    @staticmethod
    def of(
        database: Database,
        index: ArchiveIndex,
        places: ServicePlaces,
        caller: Caller,
        wanted: Sequence[int],
        machines: Sequence[str] = (),
    ) -> FleetSearch:
        """Select all repositories that the caller can see, or those with the given ids or on the given machines.

        Raise NotFound for an id that the caller cannot see.
        """
        known = index.names_updater.known(database)
        with database.reading() as session:
            allowed = rights.visible_repositories(session, caller)
        visible = known.repositories
        if allowed is not None:
            visible = [repository for repository in visible if repository.id in allowed]
        if chosen := set(wanted):
            for missing in sorted(chosen - {repository.id for repository in visible}):
                raise rights.repository_not_found(missing)
            visible = [repository for repository in visible if repository.id in chosen]
        if machines:
            visible = [repository for repository in visible if repository.machine in machines]
        return FleetSearch(database, index, places, caller, visible, known)

    def search(self, query: str, wanted: FleetQuery, limit: int, cursor: str | None) -> FleetSearchAnswer:
        found: list[FleetHit] = []
        holders = self.index.names_updater.names.holders_of_part(query)
        questions = (
            (repository, partial(self._search_one, repository, archives, query, wanted, limit, inner, found))
            for repository, inner, archives in self._with_archives(self._from(cursor, holders))
        )
        position = self._ask_in_turn(questions, found, limit)
        return FleetSearchAnswer(query=query, results=found, **self._stopped_at(position))

    def history(self, path: bytes, limit: int, cursor: str | None) -> FleetHistory:
        found: list[FleetPresence] = []

        def ask(repository: RepositoryColumns, _deadline: float) -> None:
            presence = self._history_of_one(repository, path)
            if presence is not None:
                found.append(presence)

        holders = self.index.names_updater.names.holders_of_path(path)
        questions = ((repository, partial(ask, repository)) for repository, _ in self._from(cursor, holders))
        position = self._ask_in_turn(questions, found, limit)
        return FleetHistory(**paths.to_fields(path), repositories=found, **self._stopped_at(position))

    def _ask_in_turn(
        self, questions: Iterator[tuple[RepositoryColumns, Callable[[float], str | None]]], found: Sized, limit: int
    ) -> tuple[int, str] | None:
        """Ask one repository after another until enough is found or the time is up.

        Each question is called with the deadline, and returns its position if it stopped before the end of the
        repository's index. Return where the next page begins; None if nothing is left.
        """
        deadline = self.clock() + self.seconds
        for repository, ask in questions:
            position: tuple[int, str] | None = None
            if (stopped_at := ask(deadline)) is not None:
                position = (repository.id, stopped_at)
            elif len(found) >= limit or self.clock() >= deadline:
                position = self._next(repository)
            if position is not None:
                return position
        return None

    def _stopped_at(self, position: tuple[int, str] | None) -> dict[str, Any]:
        """Return where the next page begins and how much was searched; without a position, everything was."""
        if position is None:
            return {"next_cursor": None, "coverage": self._coverage(len(self.repositories))}
        looked_at = sum(each.id < position[0] for each in self.repositories)
        return {"next_cursor": cursors.encode(*position), "coverage": self._coverage(looked_at)}

    def _from(self, cursor: str | None, holders: Holders | None) -> Iterator[tuple[RepositoryColumns, str | None]]:
        """Yield the repositories that are still to be searched, each with the position in its own index."""
        first, inner = cursors.decode(cursor, int, str) if cursor else (0, "")
        for repository in self._possible(holders):
            if repository.id >= int(first):
                yield repository, (str(inner) or None) if repository.id == first else None

    def _possible(self, holders: Holders | None) -> list[RepositoryColumns]:
        """Return the repositories without those that certainly have no match, whose indexes need not be searched."""
        if holders is None:
            return self.repositories
        numbers, having = self.index.names_updater.numbers(self.known, holders.fed), holders.numbers()
        return [one for one in self.repositories if (number := numbers.get(one.id)) is None or number in having]

    def _next(self, repository: RepositoryColumns) -> tuple[int, str] | None:
        """Return where to continue after a repository; None after the last one."""
        following = next((each.id for each in self.repositories if each.id > repository.id), None)
        return None if following is None else (following, "")

    def _search_one(
        self,
        visible: RepositoryColumns,
        archives: list[ArchiveColumns],
        query: str,
        wanted: FleetQuery,
        limit: int,
        inner: str | None,
        found: list[FleetHit],
        deadline: float,
    ) -> str | None:
        """Add the hits of one repository. Return where to continue in it; None at its end."""
        hidden: HiddenPaths | None = None
        while True:
            asked = path_view.NameQuery(query, limit - len(found), inner, wanted.deleted_only)
            try:
                answer = self.index.ask(
                    visible,
                    lambda opened, covered, asked=asked: path_view.find(  # type: ignore[misc]
                        opened, covered, archives, asked
                    ),
                )
            except Unavailable:
                self._unavailable.add(visible.id)
                return None
            hits = [hit for hit in answer.hits if wanted.takes(hit)]
            if hits and hidden is None:
                hidden = self._hidden(visible)
                if hidden is None:
                    return None
            found += [_hit(visible, hit) for hit in hits if not (hidden or NOTHING_HIDDEN).hides(hit.path)]
            inner = answer.next_cursor
            if inner is None or len(found) >= limit or self.clock() >= deadline:
                return inner

    def _history_of_one(self, visible: RepositoryColumns, path: bytes) -> FleetPresence | None:
        """Return None if no indexed archive contains the path, or if the caller may not read it."""
        try:
            if not self.index.indexes.ask(visible.uuid, lambda opened: opened is not None and opened.has_path(path)):
                return None
            archives = self._archives([visible])[visible.id]
            answer = self.index.ask(
                visible, lambda opened, covered: path_view.path_history(opened, covered, archives, path)
            )
        except Unavailable:
            self._unavailable.add(visible.id)
            return None
        if not answer.entries:
            return None
        hidden = self._hidden(visible)
        if hidden is None or hidden.hides(path):
            return None
        return _presence(visible, archives, answer)

    def _with_archives(
        self, asked: Iterator[tuple[RepositoryColumns, str | None]]
    ) -> Iterator[tuple[RepositoryColumns, str | None, list[ArchiveColumns]]]:
        """Yield repositories with their archives, which are read for more and more repositories per query, as the first
        few may be enough.
        """
        count = 1
        while some := list(islice(asked, count)):
            archives = self._archives([visible for visible, _ in some])
            yield from ((visible, inner, archives[visible.id]) for visible, inner in some)
            count = min(2 * count, MOST_AT_ONCE)

    def _archives(self, some: Sequence[RepositoryColumns]) -> dict[int, list[ArchiveColumns]]:
        """Return the archives of each repository; none if it was removed in the meantime."""
        found: dict[int, list[ArchiveColumns]] = {visible.id: [] for visible in some}
        with self.database.reading() as session:
            for row in session.connection().execute(ARCHIVES, {"ids": list(found)}):
                archive = ArchiveColumns(*row)
                found[archive.repository_id].append(archive)
        return found

    def _hidden(self, visible: RepositoryColumns) -> HiddenPaths | None:
        """Return the paths hidden for the caller; None if the repository was removed in the meantime."""
        if not self.places.may_hide_paths(self.caller, visible.execution_target):
            return NOTHING_HIDDEN
        with self.database.reading() as session:
            repository = session.get(Repository, visible.id)
            return None if repository is None else self.places.hidden_paths(session, self.caller, repository)

    def _coverage(self, looked_at: int) -> FleetCoverage:
        incomplete = [
            (repository, counted)
            for repository in self.repositories
            if (counted := self.known.counts_of(repository.id)).indexed < counted.total
            or repository.id in self._unavailable
        ]
        told = [
            IncompleteRepository(
                repository_id=repository.id,
                repository_name=repository.name,
                indexed=counted.indexed,
                total=counted.total,
                reason="unavailable" if repository.id in self._unavailable else "not_indexed",
            )
            for repository, counted in incomplete[:MOST_INCOMPLETE]
        ]
        return FleetCoverage(
            repositories=len(self.repositories),
            looked_at=looked_at,
            incomplete=told,
            incomplete_count=len(incomplete),
        )


def _of(repository: RepositoryColumns) -> dict[str, str | int | None]:
    return {
        "repository_id": repository.id,
        "repository_name": repository.name,
        "execution_target": repository.execution_target,
        "agent_machine_id": repository.agent_machine_id,
        "ssh_connection_id": repository.ssh_connection_id,
    }


def _hit(repository: RepositoryColumns, hit: Hit) -> FleetHit:
    return FleetHit.model_validate(
        {
            **_of(repository),
            **paths.to_fields(hit.path),
            "size": hit.size,
            "mtime": hit.mtime,
            "first_archive_id": hit.first.id,
            "first_seen_at": hit.first.start,
            "last_archive_id": hit.last.id,
            "last_seen_at": hit.last.start,
            "archive_count": hit.archive_count,
            "present_in_latest": hit.is_in_latest,
        }
    )


def _readable(hit: Hit) -> str:
    return paths.to_fields(hit.path)["path"] or ""


def _presence(
    repository: RepositoryColumns, archives: Sequence[ArchiveColumns], answer: PathHistoryAnswer
) -> FleetPresence:
    states = [entry for entry in answer.entries if entry.change != "removed"]
    held = _holders(archives, answer)
    return FleetPresence.model_validate(
        {
            **_of(repository),
            "presence": answer.presence,
            "archive_count": len(held),
            "versions": len(states),
            "size": states[-1].size,
            "mtime": states[-1].mtime,
            "first_archive_id": held[0].id,
            "first_seen_at": held[0].start,
            "last_archive_id": held[-1].id,
            "last_seen_at": held[-1].start,
        }
    )


def _holders(archives: Sequence[ArchiveColumns], answer: PathHistoryAnswer) -> list[ArchiveColumns]:
    """Return the indexed archives that contain the path, oldest first."""
    ordered = sorted(archives, key=lambda archive: (archive.start, archive.id))
    unindexed = set(answer.coverage.unindexed_archive_ids)
    held = []
    for span in answer.present:
        series = [archive for archive in ordered if archive.series == span.series]
        ids = [archive.id for archive in series]
        last = len(ids) - 1 if span.to_archive_id is None else ids.index(span.to_archive_id)
        held += [one for one in series[ids.index(span.from_archive_id) : last + 1] if one.id not in unindexed]
    return sorted(held, key=lambda archive: (archive.start, archive.id))
