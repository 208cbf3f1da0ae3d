"""The HTTP entity tag of an archived file; it changes when the content does."""

import hashlib

from holdfast.history.entry import Entry
from holdfast.repositories.archive_records import Archive


def etag_of(entry: Entry, archive: Archive) -> str:
    """Return the tag. If the content's hash is unknown, use the archive's id instead, since archives never change."""
    about = f"{entry.content or archive.engine_id} {entry.size} {entry.mtime} ".encode() + entry.path
    return f'"{hashlib.sha256(about).hexdigest()[:32]}"'
