"""From an archived path to something that can be sent: nothing is answered before the engine has found the path."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from tarfile import TarError, TarInfo
from typing import Literal

from backup_engine.command import Command
from backup_engine.requests import ExportTarRequest, InvalidRequest
from backup_jobs import paths as job_paths
from backup_jobs.paths import readable
from holdfast.errors import Unprocessable
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import Sealed
from holdfast.restore import errors
from holdfast.restore.download.from_tar import TarEntries, tar_blocks, zip_blocks
from holdfast.restore.source import BrokenOff, Source
from holdfast.runner.inline import InlineCalls

Format = Literal["tar", "zip"]
MEDIA_TYPES: dict[Format, str] = {"tar": "application/x-tar", "zip": "application/zip"}
ANY_FILE = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Opened:
    """``size`` is None where it is not known before the end."""

    name: str
    media_type: str
    size: int | None
    blocks: Iterator[bytes]
    close: Callable[[], None]
    in_the_way: Callable[[], bool] = lambda: False
    """Whether work that needs the repository for itself waits for this to end."""
    more_headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Downloads:
    inline: InlineCalls
    opener: Opener

    def file(
        self, repository: Repository, archive: Archive, path: bytes, gone: threading.Event, sealed: Sealed
    ) -> Opened:
        """Raise NotFound if the archive does not hold the path, Unprocessable if it is no regular file."""
        name = path.rpartition(b"/")[2]
        source = self._source(repository, archive, path, gone, sealed)
        try:
            entries, first = _first_entry(source)
            if first is None:
                raise errors.path_not_found([readable(path)])
            if not first.isreg() or first.name.encode("utf-8", "surrogateescape") != name:
                raise errors.not_a_file()
            return Opened(
                readable(name), ANY_FILE, first.size, entries.content(first), source.close, source.is_in_the_way
            )
        except BaseException:
            source.close()
            raise

    def folder(
        self,
        repository: Repository,
        archive: Archive,
        path: bytes,
        form: Format,
        gone: threading.Event,
        sealed: Sealed,
    ) -> Opened:
        """An empty path is the whole archive. Raise NotFound if the archive does not hold the path."""
        name = f"{readable(path.rpartition(b'/')[2]) or archive.name}.{form}"
        source = self._source(repository, archive, path, gone, sealed)
        try:
            blocks = _written(source, path, form)
            return Opened(name, MEDIA_TYPES[form], None, blocks, source.close, source.is_in_the_way)
        except BaseException:
            source.close()
            raise

    def _source(
        self, repository: Repository, archive: Archive, path: bytes, gone: threading.Event, sealed: Sealed
    ) -> Source:
        engine, location = self.opener.engine(repository), self.opener.location(repository)
        request = ExportTarRequest(
            engine.address(archive.name, archive.engine_id),
            paths=(job_paths.for_engine(path),) if path else (),
            strip_components=path.count(b"/"),
            excluded_trees=tuple(job_paths.for_engine(name) for name in sealed.below(path)),
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


def _written(source: Source, path: bytes, form: Format) -> Iterator[bytes]:
    """The download, once the stream is known to hold something."""
    entries, first = _first_entry(source)
    if first is None and path:
        raise errors.path_not_found([readable(path)])
    return (zip_blocks if form == "zip" else tar_blocks)(source, entries, first)
