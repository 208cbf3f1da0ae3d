"""One file of one archive, in the form on which both routes agree."""

import math
import stat
from functools import lru_cache
from typing import NamedTuple

LISTING = 1  # a record of the CLI listing
ITEM = 2  # an item of the engine's metadata chunks

IMPLICIT = 1  # a parent directory that the archive does not list itself
CONTENT_UNKNOWN = 2  # read from the CLI listing, which does not identify the content
LINK_LOSSY = 4  # the link target contains a '?' that may stand for a byte the listing could not print
INEXACT = CONTENT_UNKNOWN | LINK_LOSSY

NANOSECONDS_1_2 = (2**31 - 1 - 48 * 3600) * 1_000_000_000  # the latest time that borg 1 shows; it stores none later


class Entry(NamedTuple):
    path: bytes
    mode: int  # type and permission bits, as in st_mode
    uid: int
    gid: int
    user: str | None  # None if the archive has only the number, not a name
    group: str | None
    size: int
    mtime: int  # microseconds since 1970, UTC
    link: bytes = b""  # target of a symbolic link; path of the first name of a hard link (engine 1)
    content: int = 0  # identifies the content; 0 if there is none (directory, empty file) or it is unknown
    flags: int = 0
    chunks: bytes = b""  # of the content, from `file_chunk.packed`; only while an archive is being read

    @property
    def type(self) -> str:
        return stat.filemode(self.mode)[0]

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_hard_link(self) -> bool:
        return bool(self.link) and not stat.S_ISLNK(self.mode)

    @property
    def file_bytes(self) -> int:
        """Bytes that the entry adds to its folder's size: only files count, and hard links of engine 1 only once."""
        return self.size if stat.S_ISREG(self.mode) and not self.link else 0

    @property
    def is_implicit(self) -> bool:
        return bool(self.flags & IMPLICIT)

    @property
    def is_lossy(self) -> bool:
        return bool(self.flags & LINK_LOSSY)


PATH_BYTES_MOST = 16 * 1024
DEPTH_MOST = 512
_NAME_CHARACTERS_MOST = 1024
_INT32, _INT64 = 2**32, 2**63


def flaw_of(entry: Entry) -> str | None:
    """Given an entry read from an archive, return why it cannot be a real file; None if it can."""
    if any(type(number) is not int for number in (entry.mode, entry.uid, entry.gid, entry.size, entry.mtime)):
        return "a mode, an owner, a size or a time is not a number"
    if len(entry.path) > PATH_BYTES_MOST or len(entry.link) > PATH_BYTES_MOST:
        return "a path is longer than 16 KiB"
    if entry.path.count(b"/") > DEPTH_MOST or entry.link.count(b"/") > DEPTH_MOST:
        return "a path has more than 512 parts"
    if not 0 <= entry.mode < _INT32 or not all(-_INT32 < number < _INT32 for number in (entry.uid, entry.gid)):
        return "a mode or an owner is out of range"
    if not 0 <= entry.size < _INT64 or not -_INT64 <= entry.mtime < _INT64:
        return "a size or a time is out of range"
    if any(len(name or "") > _NAME_CHARACTERS_MOST or "\0" in (name or "") for name in (entry.user, entry.group)):
        return "the name of an owner is too long or holds a NUL"
    return None


def implicit_directory(path: bytes) -> Entry:
    return Entry(path, stat.S_IFDIR, 0, 0, None, None, 0, 0, b"", 0, IMPLICIT)


def listed(entry: Entry) -> Entry:
    """Given an exact entry, return it as the CLI listing shows it: content unknown, undecodable bytes of the link
    target as '?'.
    """
    link = printable(entry.link)
    return entry._replace(link=link, content=0, flags=listing_flags(entry.mode, entry.size, link), chunks=b"")


def listing_flags(mode: int, size: int, link: bytes) -> int:
    """Given what the CLI listing shows of a file, return flags for what it does not show."""
    if link:
        return LINK_LOSSY if b"?" in link else 0
    return CONTENT_UNKNOWN if size and stat.S_ISREG(mode) else 0


def printable(text: bytes) -> bytes:
    """Given bytes, return what borg 1 prints: every byte that is not part of valid UTF-8 becomes one '?'."""
    if text.isascii():
        return text
    decoded = text.decode("utf-8", "surrogateescape")
    return "".join("?" if "\udc80" <= character <= "\udcff" else character for character in decoded).encode()


def microseconds(nanoseconds: int, latest: int = NANOSECONDS_1_2) -> int:
    """Given a stored time, return it in microseconds as the engine prints it.

    The engine divides as floating point and rounds half to even, so this does too: cutting off the last three digits
    would differ from its listing by one microsecond for every other file.
    """
    clamped = min(max(nanoseconds, 0), latest)
    fraction, whole = math.modf(clamped / 1e9)
    return int(whole) * 1_000_000 + round(fraction * 1e6)


def whole_microseconds(nanoseconds: int, latest: int) -> int:
    """Like `microseconds`, for engine 2, which cuts off fractions of a microsecond."""
    return min(max(nanoseconds, 0), latest) // 1000


def owner_name(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


_TYPES = {
    "-": stat.S_IFREG,
    "d": stat.S_IFDIR,
    "l": stat.S_IFLNK,
    "p": stat.S_IFIFO,
    "s": stat.S_IFSOCK,
    "c": stat.S_IFCHR,
    "b": stat.S_IFBLK,
    "?": 0,
}
_SPECIAL = {"s": (1, stat.S_ISUID, stat.S_ISGID), "S": (0, stat.S_ISUID, stat.S_ISGID)}


@lru_cache(maxsize=4096)
def mode_of(kind: str, text: str) -> int:
    """Given the type letter and the engine's text of a mode (`-rwsr-xr-t`), return st_mode.

    Raise ValueError if they are invalid.
    """
    if kind not in _TYPES or len(text) != 10:
        raise ValueError(f"not a file mode: {text!r}")
    mode = _TYPES[kind]
    for position, letter in enumerate(text[1:]):
        mode |= _bit(position, letter)
    return mode


def _bit(position: int, letter: str) -> int:
    plain = 1 << (8 - position)
    if letter == "-":
        return 0
    if letter == "rwx"[position % 3]:
        return plain
    if letter in "sS" and position in (2, 5):
        executable, set_user, set_group = _SPECIAL[letter]
        return (plain if executable else 0) | (set_user if position == 2 else set_group)
    if letter in "tT" and position == 8:
        return (plain if letter == "t" else 0) | stat.S_ISVTX
    raise ValueError(f"not a file mode letter: {letter!r}")
