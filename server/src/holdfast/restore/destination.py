"""The folder that a restore writes into, and the private folder inside it. No symbolic link is ever followed."""

import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from holdfast.errors import Unprocessable
from holdfast.kit.text import readable
from holdfast.restore import errors

PREFIX = ".holdfast-restore-"
PRIVATE_NAME = re.compile(re.escape(PREFIX) + r"(?P<uuid>[0-9a-f]{32})")
TREE = "tree"
MODE = 0o700
"""Of folders that a restore makes by itself: what is restored may have been protected by a folder above it."""
PASS_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def inspect(path: bytes) -> None:
    """Raise Unprocessable if the path cannot become the destination, as far as can be told without writing."""
    place = b""
    for part in _parts(path):
        place += b"/" + part
        try:
            mode = os.lstat(place).st_mode
        except FileNotFoundError:
            return
        except OSError as error:
            raise errors.destination_unusable(error.strerror or "it cannot be read") from error
        _require_folder(place, mode)


@contextmanager
def opened(path: bytes, *, make: bool = False) -> Iterator[int]:
    """A descriptor of a folder, reached component by component. Raise Unprocessable if a link or a file is in the way."""
    descriptor = os.open("/", PASS_THROUGH)
    place = b""
    parts = _parts(path)
    try:
        for number, part in enumerate(parts, 1):
            place += b"/" + part
            below = _enter(descriptor, part, place, OPEN if number == len(parts) else PASS_THROUGH, make=make)
            os.close(descriptor)
            descriptor = below
        if not parts:
            os.close(descriptor)
            descriptor = os.open("/", OPEN)
        yield descriptor
    finally:
        os.close(descriptor)


def deepest_folder(path: bytes, below: list[bytes]) -> bytes:
    """Given a folder and names below it, return the deepest of them that is a real folder now."""
    for name in below:
        following = path.rstrip(b"/") + b"/" + name
        try:
            if not stat.S_ISDIR(os.lstat(following).st_mode):
                return path
        except OSError:
            return path
        path = following
    return path


@dataclass(frozen=True, slots=True)
class PrivateFolder:
    """Where the engine extracts to, before anything is moved into place: ours alone, on the destination's file system."""

    base: bytes
    uuid: str

    @property
    def name(self) -> str:
        return PREFIX + self.uuid

    @property
    def tree_path(self) -> bytes:
        return b"/".join((self.base.rstrip(b"/"), os.fsencode(self.name), os.fsencode(TREE)))

    def make(self) -> None:
        """Make it anew, empty."""
        self.remove()
        with opened(self.base, make=True) as base:
            try:
                os.mkdir(self.name, MODE, dir_fd=base)
                folder = os.open(self.name, OPEN, dir_fd=base)
                try:
                    os.mkdir(TREE, MODE, dir_fd=folder)
                finally:
                    os.close(folder)
            except OSError as error:
                raise errors.destination_unusable(error.strerror or "it cannot be written to") from error

    @contextmanager
    def tree(self) -> Iterator[int]:
        """A descriptor of the extracted tree. Raise Unprocessable if it is gone, or not the one that was made."""
        with opened(self.tree_path) as descriptor:
            if os.fstat(descriptor).st_uid != os.geteuid():
                raise errors.destination_unusable("somebody else put a folder in place of the private one")
            yield descriptor

    def remove(self) -> None:
        with suppress(Unprocessable), opened(self.base) as base:
            remove_folder(base, self.name)


def left_behind(base: int) -> dict[str, str]:
    """The private folders in a folder, by the uuid of their operation."""
    return {found["uuid"]: name for name in os.listdir(base) if (found := PRIVATE_NAME.fullmatch(name))}


def remove_folder(base: int, name: str) -> None:
    """Remove a folder of ours with all it holds, as far as possible."""
    if os.geteuid() != 0:
        _make_writable(base, name)
    shutil.rmtree(name, ignore_errors=True, dir_fd=base)


def _make_writable(base: int, name: str) -> None:
    """Only root may empty a folder that its owner may not write to."""
    with suppress(OSError):
        for _, folders, _, descriptor in os.fwalk(name, dir_fd=base, follow_symlinks=False):
            for folder in folders:
                if stat.S_ISDIR(os.stat(folder, dir_fd=descriptor, follow_symlinks=False).st_mode):
                    os.chmod(folder, MODE, dir_fd=descriptor)


def _enter(above: int, part: bytes, place: bytes, flags: int, *, make: bool) -> int:
    if make:
        with suppress(OSError):
            os.mkdir(part, MODE, dir_fd=above)
    try:
        return os.open(part, flags, dir_fd=above)
    except OSError as error:
        with suppress(FileNotFoundError):
            _require_folder(place, os.stat(part, dir_fd=above, follow_symlinks=False).st_mode)
        raise errors.destination_unusable(f"{readable(place)}: {error.strerror}") from error


def _require_folder(place: bytes, mode: int) -> None:
    if stat.S_ISLNK(mode):
        raise errors.destination_is_link(readable(place))
    if not stat.S_ISDIR(mode):
        raise errors.destination_unusable(f"{readable(place)} is not a folder")


def _parts(path: bytes) -> list[bytes]:
    return [part for part in path.split(b"/") if part]
