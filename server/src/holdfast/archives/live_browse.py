"""Extract one folder from an engine's listing."""

from itertools import chain
from pathlib import Path

from holdfast.history import cursor as cursors
from holdfast.history.answers import BrowsePage
from holdfast.history.entry import Entry, implicit_directory
from holdfast.history.json_listing import listing_of
from holdfast.history.names import folded
from holdfast.history.page_room import FirstNames, text_of

ITSELF = b"."


def page_of_listing(output: Path, directory: bytes, limit: int, cursor: str | None, text: str = "") -> BrowsePage:
    """Given the engine's listing of an archive, return a page of one folder as the index would.

    Raise ListingFailed if the listing is cut off, InvalidCursor if the cursor does not belong to pages of a folder.
    """
    after = position_of(cursor) if cursor else None
    found = _members(output, directory, after, limit, text.casefold())
    if found is None:
        return BrowsePage(False, [], None)
    page, has_more = found.page()
    following = cursors.encode("browse", page[-1][0].hex()) if has_more else None
    return BrowsePage(True, [entry for _, entry in page], following)


def position_of(cursor: str) -> bytes:
    """Return the last name of the previous page, encoded as in pages from the index. Raise InvalidCursor."""
    return cursors.name_of(cursor, "browse")


def _members(output: Path, directory: bytes, after: bytes | None, limit: int, needle: str) -> FirstNames[Entry] | None:
    """Return the first entries of a folder that follow a name and whose own names contain the text.

    If a path occurs twice, the last entry counts. Return None if there is no such folder.
    """
    prefix = directory + b"/" if directory else b""
    found = FirstNames[Entry](limit, lambda _, entry: text_of(entry))
    exists = not directory
    below_itself = False
    with output.open("rb") as stream:
        listing = listing_of(stream)
        for entry in map(listing.parse, chain.from_iterable(listing.batches())):
            if entry.path == directory:
                exists = exists or entry.is_directory
            if entry.path == directory or not entry.path.startswith(prefix):
                continue
            name, below, _ = entry.path[len(prefix) :].partition(b"/")
            exists = True
            below_itself = below_itself or bool(below and name == ITSELF)
            if (after is not None and name <= after) or not found.wants(name):
                continue
            if needle and needle not in folded(name):
                continue
            if not below:
                found.put(name, entry)
            elif found.get(name) is None:
                found.put(name, implicit_directory(prefix + name))
    if not directory and not below_itself:
        found.drop(ITSELF)  # the entry of the root itself, in archives of "."
    return found if exists else None
