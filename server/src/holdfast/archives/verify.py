"""Does the index say what the engine says? Archive by archive, file by file."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from holdfast.archives.history.entry import Entry, listed
from holdfast.archives.history.errors import ArchiveNotIndexed, ListingFailed
from holdfast.archives.history.index import HistoryIndex
from holdfast.archives.history.listing import Listing
from holdfast.archives.reading import listing_command
from holdfast.kit import text
from holdfast.operations.store import lane_of
from holdfast.repositories import store
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.runner.inline import InlineCalls


@dataclass(frozen=True, slots=True)
class Difference:
    archive: str
    path: str
    problem: str


@dataclass(frozen=True, slots=True)
class Verified:
    archive: str
    files: int
    differences: int
    problem: str | None = None


def verify_archive(
    inline: InlineCalls, opener: Opener, repository: Repository, archive: Archive, index: HistoryIndex
) -> Iterator[Difference | Verified]:
    """Compare one archive; each difference as it is found, and at last how many files were compared."""
    try:
        indexed = {entry.path: listed(entry) for entry in index.entries(archive.engine_id)}
    except ArchiveNotIndexed:
        yield Verified(archive.name, 0, 0, "not indexed")
        return
    command = listing_command(opener.engine(repository), opener.location(repository), archive.name)
    with inline.hold(lane_of(repository.id), subject=store.subject(repository)) as hold:
        step = hold.run(command)
        if step.outcome.status not in ("completed", "completed_with_warnings"):
            yield Verified(archive.name, 0, 0, step.outcome.message or "the engine failed")
            return
        yield from _compare(archive.name, step.stdout, indexed)


def _compare(archive: str, output: Path, indexed: dict[bytes, Entry]) -> Iterator[Difference | Verified]:
    files = differences = 0
    try:
        for entry in _newest_of_each_path(output).values():
            files += 1
            known = indexed.pop(entry.path, None)
            if known == entry:
                continue
            differences += 1
            yield Difference(archive, text.readable(entry.path), "missing in the index" if known is None else "differs")
    except ListingFailed as failure:
        yield Verified(archive, files, differences, str(failure))
        return
    for path in indexed:
        differences += 1
        yield Difference(archive, text.readable(path), "only in the index")
    yield Verified(archive, files, differences)


def _newest_of_each_path(output: Path) -> dict[bytes, Entry]:
    """A path that an archive holds twice is, after a restore, what came last."""
    with output.open("rb") as stream:
        listing = Listing(stream, lambda: 0)
        return {entry.path: entry for entry in map(listing.parse, chain.from_iterable(listing.batches()))}
