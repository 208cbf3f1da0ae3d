"""The receiver of a piped export: reads the engine's tar stream from standard input and writes its files.

Run as ``python -I -S unpack.py FOLDER``, with the folder in base64; for another machine, the text of this file is run
by the Python there. It imports only the standard library. Nothing is written outside the folder: each folder on the way
to a file is opened separately, never through a symbolic link, and names that lead elsewhere are refused.

A file that cannot be written becomes a warning in the engine's form (``path: reason``), and the rest continues. An
incomplete stream has an exit code of its own: the files written until then must not be used.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

WARNED, FAILED, BROKEN_OFF = 1, 2, 3
BLOCK = 1 << 20
HOLE = 4096
"""Aligned blocks of zeros of this size become holes."""
END = 1024
"""Number of zero bytes that end a tar stream."""
ZEROS = bytes(END)
MODE = 0o700
PASS_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
XATTR = "SCHILY.xattr."
ROOT = b"."
"""Entry of the folder that was backed up as a whole."""
LONGEST_NAME = 65_534
"""In zip files, the length of a name has two bytes; the name of a folder ends with a slash."""
LARGEST_HEADERS = 1 << 20
"""Limit in bytes for the headers of one entry."""
MOST_READS = 13
"""The end of the previous entry, and for each of six headers the header and its content."""
MOST_KEPT = 8 << 20
"""Limit in bytes for extended attributes of folders, which are kept until the end."""
MOST_IDS = 10_000
LONGEST_OWNER = 256
NOT_OURS = frozenset({errno.EPERM, errno.EACCES, errno.EOPNOTSUPP})
"""Errors for attributes that this user may not set or that the file system does not support."""

Report = Callable[[bytes, str], None]


class BrokenOff(Exception):
    """The stream ended early, or is not a tar stream."""


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Attributes(NamedTuple):
    """Metadata of a file in a tar entry."""

    mode: int
    owner: int
    group: int
    accessed: int
    changed: int
    extended: dict[str, bytes]


class HeaderReads:
    """The stream under a tar file; limits how much may be read for the headers of one entry, before it is read.

    Names and attributes that do not fit into a header are stored in additional headers before it, of any size and in
    any number. The engine needs at most three. Versions of Python parse them differently, but all read through here.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._most_bytes = self._most_reads = sys.maxsize
        self.seek, self.tell, self.close = stream.seek, stream.tell, stream.close

    def read(self, size: int) -> bytes:
        self._most_bytes -= size
        self._most_reads -= 1
        if self._most_bytes < 0 or self._most_reads < 0:
            raise tarfile.ReadError("the headers of an entry are too large")
        return cast("bytes", self._stream.read(size))

    @contextmanager
    def bounded(self) -> Iterator[None]:
        self._most_bytes, self._most_reads = LARGEST_HEADERS, MOST_READS
        try:
            yield
        finally:
            self._most_bytes = self._most_reads = sys.maxsize


class BoundedTar(tarfile.TarFile):
    """A tar stream with bounded memory per entry. Raises ReadError for headers that no engine writes."""

    def next(self) -> tarfile.TarInfo | None:
        if not isinstance(self.fileobj, HeaderReads):
            self.fileobj: Any = HeaderReads(self.fileobj)
        with self.fileobj.bounded():
            entry = super().next()
        if self.pax_headers or (entry is not None and entry.issparse()):
            raise tarfile.ReadError("the stream has headers for all entries, or a sparse file")
        return entry


class Watched:
    """A stream that remembers its last bytes, which alone show whether it is complete."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self._last = b""

    def read(self, size: int = BLOCK) -> bytes:
        block = self._stream.read(size)
        if block:
            self._last = (self._last + block[-END:])[-END:]
        return block

    def require_end(self) -> None:
        """Read the rest. Raise BrokenOff unless it ends like a tar stream."""
        while self.read():
            continue
        if self._last != ZEROS:
            raise BrokenOff


class Unpacker:
    """Unpacks a stream. `report` is called with each path that could not be written, and the reason."""

    def __init__(self, tree: int, report: Report) -> None:
        self._tree = tree
        self._report = report
        self._folders: list[tuple[bytes, Attributes]] = []
        self._kept = 0
        self._ids: dict[tuple[str, str, int], int] = {}

    def unpack(self, stream: Readable) -> None:
        """Write the files of the whole stream. Raise BrokenOff if it is incomplete."""
        watched = Watched(stream)
        try:
            with BoundedTar.open(fileobj=cast("BinaryIO", watched), mode="r|", bufsize=BLOCK, encoding="utf-8") as tar:
                while (entry := tar.next()) is not None:
                    tar.members.clear()  # type: ignore[attr-defined]  # it would remember every file of the archive
                    self._take(tar, entry)
            watched.require_end()
        except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
            raise BrokenOff from error
        for path, attributes in reversed(self._folders):
            self._trying(path, partial(self._finish_folder, path, attributes))

    def _take(self, tar: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
        path = exact(entry.name)
        if path == ROOT and entry.isdir():
            return
        if fault := name_fault(path):
            self._report(path, fault)
        elif entry.isdir():
            self._trying(path, lambda: self._make_folder(path, entry))
        elif entry.isreg():
            self._trying(path, lambda: self._write_file(path, tar, entry))
        elif entry.issym():
            self._trying(path, lambda: self._make_link(path, entry))
        elif entry.islnk():
            self._trying(path, lambda: self._make_name(path, exact(entry.linkname)))

    def _trying(self, path: bytes, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:
            self._report(path, f"[Errno {error.errno}] {error.strerror}")
        except (ValueError, OverflowError) as error:  # a number or a name that no system accepts
            self._report(path, str(error))

    def _make_folder(self, path: bytes, entry: tarfile.TarInfo) -> None:
        attributes = self._attributes(entry)
        with below(self._tree, path):
            self._kept += sum(len(name) + len(value) for name, value in attributes.extended.items())
            if self._kept > MOST_KEPT and attributes.extended:
                self._report(path, "attrs: the folders of the archive have too many extended attributes")
                attributes = attributes._replace(extended={})
            self._folders.append((path, attributes))

    def _finish_folder(self, path: bytes, attributes: Attributes) -> None:
        with below(self._tree, path) as folder:
            self._set(folder, path, attributes)

    def _write_file(self, path: bytes, tar: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
        parent, _, name = path.rpartition(b"/")
        content = tar.extractfile(entry)
        assert content is not None
        with below(self._tree, parent) as folder:
            _make_room(folder, name)
            file = os.open(name, NEW, 0o600, dir_fd=folder)
            try:
                self._copy(content, file, entry.size)
                self._set(file, path, self._attributes(entry))
            except OSError:
                os.unlink(name, dir_fd=folder)
                raise
            finally:
                os.close(file)

    def _copy(self, content: Any, file: int, size: int) -> None:
        position = 0
        while position < size:
            block = content.read(min(BLOCK, size - position))
            if not block:
                raise BrokenOff
            _write_sparsely(file, block, position)
            position += len(block)
        os.ftruncate(file, size)

    def _make_link(self, path: bytes, entry: tarfile.TarInfo) -> None:
        parent, _, name = path.rpartition(b"/")
        attributes = self._attributes(entry)
        with below(self._tree, parent) as folder:
            _make_room(folder, name)
            os.symlink(exact(entry.linkname), name, dir_fd=folder)
            with suppress(PermissionError):
                os.chown(name, attributes.owner, attributes.group, dir_fd=folder, follow_symlinks=False)
            os.utime(name, ns=(attributes.accessed, attributes.changed), dir_fd=folder, follow_symlinks=False)

    def _make_name(self, path: bytes, first: bytes) -> None:
        """Create another name for an earlier file."""
        parent, _, name = path.rpartition(b"/")
        above, _, known = first.rpartition(b"/")
        if fault := name_fault(first):
            raise OSError(errno.EPERM, fault)
        with below(self._tree, above, make=False) as there, below(self._tree, parent) as folder:
            _make_room(folder, name)
            os.link(known, name, src_dir_fd=there, dst_dir_fd=folder, follow_symlinks=False)

    def _attributes(self, entry: tarfile.TarInfo) -> Attributes:
        headers = entry.pax_headers
        changed = nanoseconds(headers.get("mtime"), entry.mtime)
        return Attributes(
            entry.mode & 0o7777,
            self._id_of("user", entry.uname, entry.uid),
            self._id_of("group", entry.gname, entry.gid),
            nanoseconds(headers.get("atime"), changed / 1e9) if "atime" in headers else changed,
            changed,
            {name[len(XATTR) :]: exact(value) for name, value in headers.items() if name.startswith(XATTR)},
        )

    def _id_of(self, what: str, name: str, number: int) -> int:
        """The local id of a user or group, by name if the name exists here. Lookups are cached."""
        if len(name) > LONGEST_OWNER:
            return number
        if len(self._ids) > MOST_IDS:
            self._ids.clear()
        known = self._ids.get((what, name, number))
        if known is None:
            known = self._ids[what, name, number] = _id_of(what, name, number)
        return known

    def _set(self, file: int, path: bytes, attributes: Attributes) -> None:
        """Set a file's attributes. An attribute that cannot be set becomes a warning in the engine's form; the content
        stays.
        """
        try:
            with suppress(PermissionError):
                os.fchown(file, attributes.owner, attributes.group)
            os.fchmod(file, attributes.mode)
            for name, value in attributes.extended.items():
                _set_extended(file, name, value)
            os.utime(file, ns=(attributes.accessed, attributes.changed))
        except OSError as error:
            self._report(path, f"attrs: [Errno {error.errno}] {error.strerror}")


def exact(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def name_fault(name: bytes) -> str | None:
    """The reason why an entry with this name must not be unpacked or served; None if the name is fine.

    This is the single rule for names in archives: for files unpacked here, and for downloads as tar and zip.
    """
    if b"\0" in name:
        return "the name holds a NUL"
    if len(name) > LONGEST_NAME:
        return "the name is too long"
    if any(part in (b"", b".", b"..") for part in name.split(b"/")):
        return "the path leads out of the folder"
    return None


def link_fault(name: bytes, target: bytes) -> str | None:
    """The reason why a symbolic link with this (valid) name and target may lead outside the folder; None if it does
    not.

    `..` may occur only at the beginning of the target, and at most as often as the link is deep: after a name, which
    may itself be a link, it could lead anywhere.
    """
    if b"\0" in target or len(target) > LONGEST_NAME:
        return "the target of the link is not a path"
    parts = [part for part in target.split(b"/") if part not in (b"", b".")]
    back = next((number for number, part in enumerate(parts) if part != b".."), len(parts))
    if target.startswith(b"/") or b".." in parts[back:] or back > name.count(b"/"):
        return "the link leads out of the folder"
    return None


@contextmanager
def below(tree: int, path: bytes, *, make: bool = True) -> Iterator[int]:
    """Open a folder in the tree. By default, missing folders are created."""
    parts = path.split(b"/") if path else []
    folder = os.dup(tree)
    try:
        for number, part in enumerate(parts, 1):
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, MODE, dir_fd=folder)
            following = os.open(part, OPEN if number == len(parts) else PASS_THROUGH, dir_fd=folder)
            os.close(folder)
            folder = following
        yield folder
    finally:
        os.close(folder)


def opened(path: bytes) -> int:
    """Open a folder owned by this user, reached without following a symbolic link."""
    folder = os.open("/", PASS_THROUGH)
    for part in filter(None, path.split(b"/")):
        following = os.open(part, PASS_THROUGH, dir_fd=folder)
        os.close(folder)
        folder = following
    if os.fstat(folder).st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it belongs to another user")
    return folder


def nanoseconds(text: str | None, seconds: float) -> int:
    """A time in nanoseconds: exact if the engine wrote it as text, otherwise computed from its number of seconds."""
    if text is None:
        return int(seconds) * 10**9
    whole, _, part = text.partition(".")
    nanos = int(part[:9].ljust(9, "0")) if part else 0
    return int(whole) * 10**9 + (-nanos if whole.startswith("-") else nanos)


def _make_room(folder: int, name: bytes) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _write_sparsely(file: int, block: bytes, position: int) -> None:
    """Write a block except for its pages of zeros, which become holes when the file's size is set."""
    start = 0
    while start < len(block):
        end = start + HOLE
        if _is_hole(block, start):
            start = end
            continue
        while end < len(block) and not _is_hole(block, end):
            end += HOLE
        _write(file, block[start:end], position + start)
        start = end


def _is_hole(block: bytes, start: int) -> bool:
    return block.count(0, start, start + HOLE) == HOLE


def _write(file: int, content: bytes, position: int) -> None:
    while content:
        written = os.pwrite(file, content, position)
        content, position = content[written:], position + written


def _id_of(what: str, name: str, number: int) -> int:
    import grp
    import pwd

    if os.geteuid() != 0:
        return number
    try:
        return (pwd.getpwnam(name).pw_uid if what == "user" else grp.getgrnam(name).gr_gid) if name else number
    except KeyError:
        return number


def _set_extended(file: int, name: str, value: bytes) -> None:
    if not hasattr(os, "setxattr"):
        return
    try:
        os.setxattr(file, name, value)
    except OSError as error:
        if error.errno not in NOT_OURS:
            raise


class Complaints:
    """Reports on standard error in the engine's form, and remembers whether anything was reported."""

    def __init__(self) -> None:
        self.any = False

    def report(self, path: bytes, reason: str) -> None:
        self.any = True
        shown = path.decode("utf-8", "surrogateescape").encode("utf-8", "replace").decode()  # as the engine does
        write_message("WARNING", f"{shown}: {reason}")


def write_message(level: str, message: str) -> None:
    sys.stderr.write(
        json.dumps({"type": "log_message", "levelname": level, "name": "unpack", "message": message}) + "\n"
    )
    sys.stderr.flush()


def main() -> int:
    complaints = Complaints()
    try:
        tree = opened(base64.b64decode(sys.argv[1]))
        Unpacker(tree, complaints.report).unpack(sys.stdin.buffer)
    except BrokenOff:
        return BROKEN_OFF
    except OSError as error:
        write_message("ERROR", f"The files cannot be written: {error.strerror}.")
        return FAILED
    return WARNED if complaints.any else 0


if __name__ == "__main__":
    sys.exit(main())
