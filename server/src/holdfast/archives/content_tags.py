"""The HTTP entity tag of an archived file: equal as long as its content is."""

import hashlib

from holdfast.history.entry import Entry
from holdfast.repositories.archive_records import Archive


def etag_of(entry: Entry, archive: Archive) -> str:
    """Archives never change, so where the content is not known by itself, the archive stands for it."""
    about = f"{entry.content or archive.engine_id} {entry.size} {entry.mtime} ".encode() + entry.path
    return f'"{hashlib.sha256(about).hexdigest()[:32]}"'
