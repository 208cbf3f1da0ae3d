"""From an archived path to something that can be sent: nothing is answered before the engine has found the path."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from tarfile import TarError, TarInfo
from typing import Literal

from backup_engine.command import Command
from backup_engine.requests import ExportTarRequest, InvalidRequest
from holdfast.errors import Unprocessable
from holdfast.kit.text import readable
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.restore import archived_paths, errors
from holdfast.restore.download.from_tar import TarEntries, zip_blocks
from holdfast.restore.source import BrokenOff, Source
from holdfast.runner.inline import InlineCalls

Format = Literal["tar", "zip"]
MEDIA_TYPES: dict[Format, str] = {"tar": "application/x-tar", "zip": "application/zip"}
ANY_FILE = "application/octet-stream"
TAR_RECORD = 512


@dataclass(frozen=True, slots=True)
class Opened:
    """``size`` is None where it is not known before the end."""

    name: str
    media_type: str
    size: int | None
    blocks: Iterator[bytes]
    close: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Downloads:
    inline: InlineCalls
    opener: Opener

    def file(self, repository: Repository, archive: Archive, path: bytes, gone: threading.Event) -> Opened:
        """Raise NotFound if the archive does not hold the path, Unprocessable if it is no regular file."""
        name = path.rpartition(b"/")[2]
        source = self._source(repository, archive, path, gone)
        try:
            entries, first = _first_entry(source)
            if first is None:
                raise errors.path_not_found([readable(path)])
            if not first.isreg() or first.name.encode("utf-8", "surrogateescape") != name:
                raise errors.not_a_file()
            return Opened(readable(name), ANY_FILE, first.size, entries.content(first), source.close)
        except BaseException:
            source.close()
            raise

    def folder(
        self, repository: Repository, archive: Archive, path: bytes, form: Format, gone: threading.Event
    ) -> Opened:
        """An empty path is the whole archive. Raise NotFound if the archive does not hold the path."""
        name = f"{readable(path.rpartition(b'/')[2]) or archive.name}.{form}"
        source = self._source(repository, archive, path, gone)
        try:
            blocks = _as_zip(source, path) if form == "zip" else _as_tar(source, path)
            return Opened(name, MEDIA_TYPES[form], None, blocks, source.close)
        except BaseException:
            source.close()
            raise

    def _source(self, repository: Repository, archive: Archive, path: bytes, gone: threading.Event) -> Source:
        engine, location = self.opener.engine(repository), self.opener.location(repository)
        request = ExportTarRequest(
            engine.address(archive.name, archive.engine_id),
            paths=(archived_paths.for_engine(path),) if path else (),
            strip_components=path.count(b"/"),
        )
        try:
            command: Command = engine.export_tar(location, request)
        except InvalidRequest as error:
            raise Unprocessable(error.key, str(error)) from error
        return Source(self.inline, repository, command, gone)


def _first_entry(source: Source) -> tuple[TarEntries, TarInfo | None]:
    try:
        entries = TarEntries(source)
        return entries, entries.next()
    except (BrokenOff, TarError) as error:
        raise source.refusal() from error


def _as_zip(source: Source, path: bytes) -> Iterator[bytes]:
    entries, first = _first_entry(source)
    if first is None and path:
        raise errors.path_not_found([readable(path)])
    return zip_blocks(source, entries, first)


def _as_tar(source: Source, path: bytes) -> Iterator[bytes]:
    """The engine's own bytes, once they are known to hold something."""
    beginning = b""
    while len(beginning) < TAR_RECORD and (block := source.read()):
        beginning += block
    if len(beginning) < TAR_RECORD:
        raise source.refusal()
    if path and not any(beginning[:TAR_RECORD]):
        raise errors.path_not_found([readable(path)])
    return _after(beginning, source)


def _after(beginning: bytes, source: Source) -> Iterator[bytes]:
    yield beginning
    yield from source.blocks()
