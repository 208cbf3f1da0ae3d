"""Check whether the index matches the engine's listing, archive by archive and file by file."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from backup_engine.frozen import frozen
from backup_jobs import paths as text
from backup_jobs.host import SUCCEEDED
from holdfast.archives.archive_reader import listing_command
from holdfast.history.entry import Entry, listed
from holdfast.history.errors import ArchiveNotIndexed, HistoryError, ListingFailed
from holdfast.history.excludes import Excludes
from holdfast.history.index import HistoryIndex
from holdfast.history.json_listing import listing_of
from holdfast.operations.queue import lane_of
from holdfast.repositories import store
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.runner.inline import InlineCalls


@frozen
class Difference:
    archive: str
    path: str
    problem: str


@frozen
class Verified:
    archive: str
    files: int
    differences: int
    problem: str | None = None


def verify_archive(
    inline: InlineCalls, opener: Opener, repository: Repository, archive: Archive, index: HistoryIndex
) -> Iterator[Difference | Verified]:
    """Compare one archive. Yield each difference when it is found, and finally the number of files compared."""
    try:
        indexed = {entry.path: listed(entry) for entry in index.entries(archive.engine_id)}
    except ArchiveNotIndexed:
        yield Verified(archive.name, 0, 0, "not indexed")
        return
    except HistoryError as error:
        yield Verified(archive.name, 0, 0, str(error))
        return
    command = listing_command(opener.engine(repository), opener.location(repository), archive)
    with inline.hold(lane_of(repository.id), subject=store.subject(repository)) as hold:
        step = hold.run(command)
        if step.outcome.status not in SUCCEEDED:
            yield Verified(archive.name, 0, 0, step.outcome.message or "the engine failed")
            return
        yield from _compare(archive.name, step.stdout, indexed, Excludes(repository.history_index_excludes))


def _compare(
    archive: str, output: Path, indexed: dict[bytes, Entry], excludes: Excludes
) -> Iterator[Difference | Verified]:
    try:
        said = _said_by_engine(output, excludes)
    except ListingFailed as failure:
        yield Verified(archive, 0, 0, str(failure))
        return
    differences = 0
    for path in sorted(said.keys() | indexed.keys()):
        if said.get(path) != indexed.get(path):
            differences += 1
            yield Difference(archive, text.readable(path), _problem(said.get(path), indexed.get(path)))
    yield Verified(archive, len(said), differences)


def _problem(said: Entry | None, indexed: Entry | None) -> str:
    if indexed is None:
        return "missing in the index"
    if said is None:
        return "only in the index"
    told = [name for name in Entry._fields if getattr(said, name) != getattr(indexed, name)]
    return f"differs in {', '.join(told)}"


def _said_by_engine(output: Path, excludes: Excludes) -> dict[bytes, Entry]:
    """Return the engine's listing without the files that the index leaves out.

    If an archive contains a path twice, the last entry counts, since that is what a restore leaves.
    """
    with output.open("rb") as stream:
        listing = listing_of(stream)
        found = map(listing.parse, chain.from_iterable(listing.batches()))
        return {entry.path: listed(entry) for entry in found if not excludes.match(entry.path)}
