"""A preview of the beginning of an archived file: as text, as an image, or as bytes."""

import base64
import codecs
import re
from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field

from holdfast.access.caller import SignedIn
from holdfast.api.answers import documented
from holdfast.api.router import router
from holdfast.downloads.engine_output import ClientGone, IncompleteOutput
from holdfast.downloads.opening import Opened
from holdfast.downloads.routes import Chosen
from holdfast.errors import Unprocessable, service_stops
from holdfast.kit.schema import Schema
from holdfast.runner.engine_requests import asks_engine

routes = router("/api/repositories/{repository_id}/archives/{archive_id}", "restore")

DEFAULT_BYTES, MOST_BYTES = 64 << 10, 4 << 20
PICTURES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
)
MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
NOT_IN_TEXT = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f]")


class FilePreview(Schema):
    kind: Literal["text", "image", "binary"]
    size: int = Field(description="Size of the whole file.")
    truncated: bool = Field(description="The file is larger than the requested number of bytes.")
    encoding: str | None = Field(None, description="Of a text.")
    text: str | None = Field(None, description="Beginning of a text file.")
    media_type: str | None = Field(None, description="Of an image.")
    content_b64: str | None = Field(
        None, description="A complete image, or the first bytes of other files; empty for a truncated image."
    )


@routes.get("/preview", summary="Preview the beginning of a file", responses=documented(404, 423))
@asks_engine
def preview_file(
    caller: SignedIn,  # `asks_engine` counts requests per caller
    chosen: Chosen,
    max_bytes: Annotated[int, Query(ge=1, le=MOST_BYTES, description="Number of bytes to read.")] = DEFAULT_BYTES,
) -> FilePreview:
    """The kind is detected from the content, never from the name. Images are returned only if complete."""
    del caller
    repository, archive, hidden = chosen.found_file()
    downloads, path = chosen.downloads, chosen.path
    content = downloads.known(repository, archive, path)
    part = (0, min(content.size, max_bytes)) if content is not None and content.size else None
    try:
        # A preview is not streamed, so only the end of the service ends it early.
        opened = downloads.file(repository, archive, path, downloads.inline.stopping, hidden, content, part)
        try:
            beginning = _beginning(opened, max_bytes)
        finally:
            if opened.close is not None:
                opened.close()
    except ClientGone:
        raise service_stops() from None
    return preview_of(beginning, content.size if content is not None else opened.size or 0)


def _beginning(opened: Opened, most: int) -> bytes:
    beginning = b""
    try:
        for block in opened.blocks:
            beginning += block[: most - len(beginning)]
            if len(beginning) == most:
                break
    except IncompleteOutput as error:
        raise Unprocessable("engine.failed", f"The file cannot be read: {error}") from error
    return beginning


def preview_of(beginning: bytes, size: int) -> FilePreview:
    """Build the preview from the first bytes of a file and its size."""
    truncated = len(beginning) < size
    for pattern, media_type in PICTURES:
        if pattern.match(beginning):
            content = None if truncated else base64.b64encode(beginning).decode()
            return FilePreview(kind="image", size=size, truncated=truncated, media_type=media_type, content_b64=content)
    for encoding in (*(name for mark, name in MARKS if beginning.startswith(mark)), "utf-8", "iso-8859-1"):
        text = _text(beginning, encoding, truncated=truncated)
        if text is not None:
            return FilePreview(kind="text", size=size, truncated=truncated, encoding=encoding, text=text)
    first = base64.b64encode(beginning[:DEFAULT_BYTES]).decode()
    return FilePreview(kind="binary", size=size, truncated=truncated, content_b64=first)


def _text(beginning: bytes, encoding: str, *, truncated: bool) -> str | None:
    """Decode the text; None if it is not text. If it is truncated, its last character may be incomplete."""
    try:
        text = codecs.getincrementaldecoder(encoding)("strict").decode(beginning, final=not truncated)
    except UnicodeDecodeError:
        return None
    return None if NOT_IN_TEXT.search(text) else text
