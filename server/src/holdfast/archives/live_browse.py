"""One directory out of an engine's listing."""

import base64
from itertools import chain
from pathlib import Path

from holdfast.archives.history.browse import BrowsePage
from holdfast.archives.history.entry import Entry, implicit_directory
from holdfast.archives.history.listing import Listing
from holdfast.kit import cursor as cursors
from holdfast.kit import text


def page_of_listing(output: Path, directory: bytes, limit: int, cursor: str | None) -> BrowsePage:
    """Given the engine's listing of an archive, return a page of one directory. Raise ListingFailed if it is cut off."""
    after = text.from_exact(str(cursors.decode(cursor, str)[0])) if cursor else None
    prefix = directory + b"/" if directory else b""
    found: dict[bytes, Entry] = {}
    exists = not directory
    with output.open("rb") as stream:
        listing = Listing(stream, lambda: 0)
        for record in chain.from_iterable(listing.batches()):
            entry = listing.parse(record)
            if entry.path == directory:
                exists = True
            if not entry.path.startswith(prefix) or entry.path == directory:
                continue
            name, below, _ = entry.path[len(prefix) :].partition(b"/")
            exists = True
            if not below:
                found[name] = entry
            else:
                found.setdefault(name, implicit_directory(prefix + name))
    names = sorted(name for name in found if after is None or name > after)
    page = names[:limit]
    following = cursors.encode(base64.b64encode(page[-1]).decode()) if len(names) > limit else None
    return BrowsePage(exists, [found[name] for name in page], following)
