"""Properties of folders and files for WebDAV clients, and their XML."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from html import escape

from backup_engine.frozen import frozen
from holdfast.errors import Unprocessable

DAV = "DAV:"
ANY_FILE = "application/octet-stream"
"""The type of all files, so that a browser never shows one as a page of this service."""
PROLOGUE = '<?xml version="1.0" encoding="utf-8"?>\n<D:multistatus xmlns:D="DAV:">'
EPILOGUE = "</D:multistatus>\n"
NO_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML does not allow although file names may contain them."""

MOST_NAMES = 50
LONGEST_NAME = 200
"""Clients ask for about a dozen. The response repeats unknown properties for each file, with their namespaces."""

Names = tuple[str, ...]


@frozen
class Resource:
    """One folder or file. `size` is None for a folder."""

    address: str
    name: str
    size: int | None = None
    modified: datetime | None = None
    etag: str | None = None

    @property
    def properties(self) -> Mapping[str, str]:
        """Property values as XML, by name."""
        known = {
            "displayname": text(self.name),
            "resourcetype": "" if self.size is not None else "<D:collection/>",
            "getcontentlength": None if self.size is None else str(self.size),
            "getcontenttype": None if self.size is None else ANY_FILE,
            "getlastmodified": None if self.modified is None else http_date(self.modified),
            "getetag": None if self.etag is None else text(self.etag),
        }
        return {name: value for name, value in known.items() if value is not None}


def wanted_of(body: bytes) -> tuple[Names | None, bool]:
    """The properties that a request asks for (None: all), and whether it asks only for names. Raise Unprocessable."""
    if not body.strip():
        return None, False
    from xml.etree import ElementTree as ET  # a megabyte that only the drive's clients need

    try:
        if b"<!" in body or b"\0" in body:  # document types and other encodings are not needed
            raise ET.ParseError
        root = ET.fromstring(body)  # noqa: S314 - no document type, no entities
    except ET.ParseError as error:
        raise Unprocessable("dav.bad_request", "The body is not a PROPFIND request.") from error
    if root.tag != f"{{{DAV}}}propfind":
        raise Unprocessable("dav.bad_request", "The body is not a PROPFIND request.")
    if root.find(f"{{{DAV}}}propname") is not None:
        return None, True
    asked = root.find(f"{{{DAV}}}prop")
    names = None if asked is None else tuple(dict.fromkeys(one.tag for one in asked))
    if names is not None and (len(names) > MOST_NAMES or max(map(len, names), default=0) > LONGEST_NAME):
        raise Unprocessable("dav.bad_request", "The request has too many properties, or one with too long a name.")
    return names, False


def response(resource: Resource, wanted: Names | None, *, only_names: bool = False) -> str:
    """The part of the response that describes one resource."""
    known = resource.properties
    if wanted is None:
        found, missing = list(known), []
    else:
        asked = {name.removeprefix(f"{{{DAV}}}"): name for name in wanted if name.startswith(f"{{{DAV}}}")}
        found = [name for name in asked if name in known]
        missing = [name for name in wanted if name.removeprefix(f"{{{DAV}}}") not in known]
    parts = "".join(f"<D:{name}/>" if only_names else f"<D:{name}>{known[name]}</D:{name}>" for name in found)
    answer = _propstat(parts, "200 OK") if parts or not missing else ""
    if missing:
        answer += _propstat("".join(map(_empty, missing)), "404 Not Found")
    return f"<D:response><D:href>{escape(resource.address, quote=False)}</D:href>{answer}</D:response>"


def _propstat(parts: str, status: str) -> str:
    return f"<D:propstat><D:prop>{parts}</D:prop><D:status>HTTP/1.1 {status}</D:status></D:propstat>"


def _empty(name: str) -> str:
    """An unknown property, in the namespace used by the request."""
    space, _, local = name.removeprefix("{").rpartition("}") if name.startswith("{") else ("", "", name)
    return f'<x:{local} xmlns:x="{escape(space)}"/>' if space else f"<{local}/>"


def text(value: str) -> str:
    return escape(NO_CHARACTER.sub("\ufffd", value), quote=False)


def http_date(moment: datetime) -> str:
    return format_datetime(moment.astimezone(UTC), usegmt=True)
