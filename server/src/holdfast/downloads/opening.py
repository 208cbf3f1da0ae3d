"""Opens a download for archived paths. No response is sent before the engine has found the path."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from email.utils import format_datetime
from tarfile import TarError, TarInfo
from typing import Literal, Protocol

from backup_engine.chunks.commands import narrowed
from backup_engine.command import Command
from backup_engine.frozen import frozen
from backup_engine.requests import ExportTarRequest, InvalidRequest
from backup_jobs import paths as job_paths
from backup_jobs.paths import readable
from holdfast.api.parts import Part
from holdfast.downloads import errors
from holdfast.downloads.engine_output import EngineOutput, IncompleteOutput
from holdfast.downloads.from_tar import Entries, TarEntries, tar_blocks, zip_blocks
from holdfast.errors import Unprocessable
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import HiddenPaths
from holdfast.runner.inline import InlineCalls

Format = Literal["tar", "zip"]
MEDIA_TYPES: dict[Format, str] = {"tar": "application/x-tar", "zip": "application/zip"}
ANY_FILE = "application/octet-stream"
MOST_NAMED = 10
"""Maximum number of paths that an error names."""


class Content(Protocol):
    """What is known about a path of an archive without running the engine."""

    @property
    def is_file(self) -> bool: ...
    @property
    def size(self) -> int: ...
    @property
    def etag(self) -> str: ...
    @property
    def modified(self) -> datetime: ...
    @property
    def is_readable(self) -> bool: ...
    def blocks(self, start: int, end: int, gone: threading.Event) -> Iterable[bytes] | None:
        """Its bytes from `start` to `end`, with the first block already read; a list if all of them are in memory; None
        if only the engine can read them.
        """


class Contents(Protocol):
    def find(self, repository: Repository, archive: Archive, path: bytes) -> Content | None: ...
    def tree(
        self,
        repository: Repository,
        archive: Archive,
        paths: Sequence[bytes],
        hidden: HiddenPaths,
        gone: threading.Event,
    ) -> Entries | None:
        """Everything at and below these paths, by the names used in a download; None if the engine is more suitable."""


CONTENTS = Part[Contents]("contents")


@frozen
class Opened:
    """A download that is ready to be sent. ``size`` is the size of what is sent, None if it is not known in advance."""

    name: str
    media_type: str
    size: int | None
    blocks: Iterable[bytes]
    """The content; a list if all of it is in memory."""
    close: Callable[[], None] | None = None
    """Ends the engine that writes the content, if there is one."""
    in_the_way: Callable[[], bool] | None = None
    """Whether work that needs the repository exclusively is waiting; None if the download holds no repository."""
    more_headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200


@frozen
class Downloads:
    inline: InlineCalls
    opener: Opener
    contents: Contents

    def known(self, repository: Repository, archive: Archive, path: bytes) -> Content | None:
        """What the index knows about a file. Raise Unprocessable if the path is not a file."""
        content = self.contents.find(repository, archive, path)
        if content is not None and not content.is_file:
            raise errors.not_a_file()
        return content

    def file(
        self,
        repository: Repository,
        archive: Archive,
        path: bytes,
        gone: threading.Event,
        hidden: HiddenPaths,
        content: Content | None = None,
        part: tuple[int, int] | None = None,
    ) -> Opened:
        """Open a file, or a range of it.

        Ranges require content that can be read without the engine; otherwise the engine sends the whole file. Raise
        NotFound if the path is not in the archive, Unprocessable if it is not a regular file.
        """
        if content is None:
            return self._file_by_engine(repository, archive, path, gone, hidden)
        start, end = part or (0, content.size)
        blocks = content.blocks(start, end, gone)
        if blocks is None:
            whole = self._file_by_engine(repository, archive, path, gone, hidden)
            return replace(whole, more_headers=content_headers(content, is_readable=False))
        told = content_headers(content)
        if part is not None:
            told["Content-Range"] = f"bytes {start}-{end - 1}/{content.size}"
        name, status = readable(path.rpartition(b"/")[2]), 200 if part is None else 206
        return Opened(name, ANY_FILE, end - start, blocks, more_headers=told, status=status)

    def _file_by_engine(
        self, repository: Repository, archive: Archive, path: bytes, gone: threading.Event, hidden: HiddenPaths
    ) -> Opened:
        name = path.rpartition(b"/")[2]
        source = self._source(repository, archive, (path,), gone, hidden)
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
        paths: Sequence[bytes],
        form: Format,
        gone: threading.Event,
        hidden: HiddenPaths,
    ) -> Opened:
        """Open folders and files, or the whole archive if there are no paths. Raise NotFound if none of the paths are
        in the archive.
        """
        about = paths[0] if len(paths) == 1 else shared_folder(paths)
        name = f"{readable(about.rpartition(b'/')[2]) or archive.name}.{form}"
        if (tree := self.contents.tree(repository, archive, paths, hidden, gone)) is not None:
            return Opened(name, MEDIA_TYPES[form], None, _blocks(tree, tree.next(), form))
        source = self._source(repository, archive, paths, gone, hidden)
        try:
            blocks = _written(source, paths, form)
            return Opened(name, MEDIA_TYPES[form], None, blocks, source.close, source.is_in_the_way)
        except BaseException:
            source.close()
            raise

    def _source(
        self,
        repository: Repository,
        archive: Archive,
        paths: Sequence[bytes],
        gone: threading.Event,
        hidden: HiddenPaths,
    ) -> EngineOutput:
        engine, location = self.opener.engine(repository), self.opener.location(repository)
        request = ExportTarRequest(
            engine.address(archive.name, archive.engine_id),
            paths=tuple(map(job_paths.for_engine, paths)),
            strip_components=shared_depth(paths),
            excluded_trees=tuple(job_paths.for_engine(name) for path in paths or (b"",) for name in hidden.below(path)),
        )
        try:
            command: Command = narrowed(engine.export_tar(location, request), request.paths)
        except InvalidRequest as error:
            raise Unprocessable(error.key, str(error)) from error
        return EngineOutput(self.inline, repository, command, gone)


DOWNLOADS = Part[Downloads]("downloads")


def content_headers(content: Content, *, is_readable: bool | None = None) -> dict[str, str]:
    """The headers that identify the content and show whether ranges of it can be requested."""
    has_parts = content.is_readable if is_readable is None else is_readable
    return {
        "ETag": content.etag,
        "Last-Modified": format_datetime(content.modified.replace(microsecond=0), usegmt=True),
        "Accept-Ranges": "bytes" if has_parts else "none",
        "Cache-Control": "private, no-cache",
    }


def shared_folder(paths: Sequence[bytes]) -> bytes:
    """The innermost folder that contains all paths; names in a download are relative to it.

    Empty for the archive's root.
    """
    folders = [path.split(b"/")[:-1] for path in paths]
    shared = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return b"/".join(shared)


def shared_depth(paths: Sequence[bytes]) -> int:
    """The number of leading path components that are stripped from names in a download."""
    folder = shared_folder(paths)
    return folder.count(b"/") + 1 if folder else 0


def _first_entry(source: EngineOutput) -> tuple[TarEntries, TarInfo | None]:
    try:
        entries = TarEntries(source)
        return entries, entries.next()
    except (IncompleteOutput, TarError) as error:
        raise source.refusal() from error


def _written(source: EngineOutput, paths: Sequence[bytes], form: Format) -> Iterator[bytes]:
    """The download's blocks, once the stream is known to contain an entry. Raise NotFound if a path was requested and
    it does not.
    """
    entries, first = _first_entry(source)
    if first is None and paths:
        raise errors.path_not_found([readable(path) for path in paths[:MOST_NAMED]])
    return _blocks(entries, first, form)


def _blocks(entries: Entries, first: TarInfo | None, form: Format) -> Iterator[bytes]:
    return (zip_blocks if form == "zip" else tar_blocks)(entries, first)
