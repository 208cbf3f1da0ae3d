"""Trees of files that are hard to restore, and the facts about a tree that can be compared."""

import hashlib
import os
import random
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MEBIBYTE = 1 << 20
LONG_NAME = b"n" * 255
NOT_UTF8 = b"caf\xe9"
ALSO_NOT_UTF8 = b"caf\xe8"
LINES_IN_NAME = b"two\nlines\t'and' \"quotes\" \\ % {now}"
LEADING_OUT = frozenset({b"links/absolute", b"links/dangling"})
"""Links that downloads leave out."""
FIFO = b"fifo"
LONG_AGO = 946_684_800_123_456_789


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that a restore must bring back for one name, which excludes times of access and change."""

    type: int
    mode: int
    user: int
    group: int
    modified: int
    size: int
    content: str | None
    target: bytes | None
    attributes: tuple[tuple[str, bytes], ...]
    names: tuple[bytes, ...]
    """All names of the same file in this tree."""


def contents_below(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Each regular file below a folder with its content, but for those that are removed in the meantime."""
    for place, _, names in os.walk(folder):
        for file in (Path(place, name) for name in names):
            try:
                if stat.S_ISREG(file.lstat().st_mode):
                    yield file, file.read_bytes()
            except FileNotFoundError:
                continue


def files_with(folder: Path, text: str) -> list[Path]:
    """The files below a folder that contain a text."""
    wanted = text.encode()
    return [file for file, content in contents_below(folder) if wanted in content]


def look_at(root: Path | bytes) -> dict[bytes, Seen]:
    """Every name below a folder, and the folder itself under the empty name."""
    top = os.fsencode(root)
    paths = [b"", *_below(top, b"")]
    inodes: dict[tuple[int, int], list[bytes]] = {}
    found = {path: os.lstat(os.path.join(top, path)) for path in paths}
    for path, seen in found.items():
        if not stat.S_ISDIR(seen.st_mode):
            inodes.setdefault((seen.st_dev, seen.st_ino), []).append(path)
    return {path: _seen(os.path.join(top, path), seen, inodes) for path, seen in found.items()}


def _below(top: bytes, folder: bytes) -> list[bytes]:
    paths = []
    for name in sorted(os.listdir(os.path.join(top, folder))):
        path = os.path.join(folder, name)
        paths.append(path)
        full = os.path.join(top, path)
        if stat.S_ISDIR(os.lstat(full).st_mode):
            paths += _below(top, path)
    return paths


def _seen(path: bytes, found: os.stat_result, inodes: dict[tuple[int, int], list[bytes]]) -> Seen:
    kind = stat.S_IFMT(found.st_mode)
    regular, link = kind == stat.S_IFREG, kind == stat.S_IFLNK
    return Seen(
        type=kind,
        mode=stat.S_IMODE(found.st_mode),
        user=found.st_uid,
        group=found.st_gid,
        modified=found.st_mtime_ns,
        size=found.st_size if regular else 0,
        content=_hash(path) if regular else None,
        target=os.readlink(path) if link else None,
        attributes=tuple(
            (name, os.getxattr(path, name, follow_symlinks=False))
            for name in sorted(os.listxattr(path, follow_symlinks=False))
        ),
        names=tuple(inodes.get((found.st_dev, found.st_ino), ())),
    )


def _hash(path: bytes) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def blocks_of(path: Path) -> int:
    """Bytes that a file takes on the disk."""
    return path.lstat().st_blocks * 512


def make_difficult_tree(root: Path) -> None:
    """Create everything that a backup of a real machine may contain; as root also files of other owners."""
    root.mkdir()
    top = os.fsencode(root)
    (root / "plain.txt").write_text("plain\n")
    (root / "empty").write_bytes(b"")
    (root / "random.bin").write_bytes(random.Random(1).randbytes(3 * MEBIBYTE))
    _make_sparse(root / "sparse.img")
    _make_names(top)
    _make_links(root)
    _make_modes(root)
    os.mkfifo(top + b"/" + FIFO)
    _date_back(root)


def _make_sparse(path: Path) -> None:
    """Write 32 MiB of which only 8 KiB are on disk: data at the beginning and near the end, and a hole after it."""
    with path.open("wb") as file:
        file.write(b"begin" * 819)
        file.seek(28 * MEBIBYTE)
        file.write(b"end" * 1365)
        file.truncate(32 * MEBIBYTE)


def _make_names(top: bytes) -> None:
    deep = top + b"/deep" + b"/level" * 40
    os.makedirs(deep)
    for name in (NOT_UTF8, ALSO_NOT_UTF8, LINES_IN_NAME, LONG_NAME, b"-dash", b" space ", b"*?[a]", "ünï".encode()):
        with open(top + b"/" + name, "wb") as file:
            file.write(b"named " + name)
    os.makedirs(top + b"/folder " + NOT_UTF8 + b"/" + LONG_NAME)
    with open(top + b"/folder " + NOT_UTF8 + b"/inside", "wb") as file:
        file.write(b"inside")
    with open(deep + b"/bottom", "wb") as file:
        file.write(b"bottom")
    os.makedirs(top + b"/empty folder/empty below")


def _make_links(root: Path) -> None:
    links = root / "links"
    links.mkdir()
    (links / "dangling").symlink_to("/nowhere/at/all")
    (links / "relative").symlink_to("../plain.txt")
    (links / "absolute").symlink_to("/etc/hostname")
    (links / "to-folder").symlink_to("../empty folder")
    (links / "to-parent").symlink_to("..")
    os.symlink(b"target-" + NOT_UTF8, os.fsencode(links) + b"/to-odd-name")
    (links / "first").write_text("one file, three names\n")
    os.link(links / "first", links / "second")
    os.link(links / "first", root / "third")


def _make_modes(root: Path) -> None:
    modes = root / "modes"
    modes.mkdir()
    for number, mode in enumerate((0o000, 0o400, 0o644, 0o755, 0o4755, 0o2750, 0o1777, 0o777)):
        file = modes / f"file-{mode:04o}"
        file.write_text(f"{mode:04o}")
        folder = modes / f"folder-{mode:04o}"
        if os.geteuid() != 0 and mode & 0o500 != 0o500:
            continue  # only root could read it
        folder.mkdir()
        (folder / "inside").write_text("inside")
        for path in (file, folder):
            if os.geteuid() == 0:
                os.chown(path, 1000 + number, 2000 + number)
            path.chmod(mode)
    attributed = root / "attributed"
    attributed.write_text("with attributes")
    os.setxattr(attributed, "user.comment", b"bytes \x00\xff")
    os.setxattr(attributed, "user.empty", b"")
    folder = root / "attributed folder"
    folder.mkdir(mode=0o751)
    os.setxattr(folder, "user.folder", b"yes")
    if os.geteuid() == 0:
        os.chown(root / "links" / "dangling", 1234, 4321, follow_symlinks=False)


def _date_back(root: Path) -> None:
    """Set times with nanoseconds, deepest entries first, so that a folder's time is set after its content."""
    top = os.fsencode(root)
    for number, path in enumerate(reversed([b"", *_below(top, b"")])):
        moment = LONG_AGO + number * 1_000_000_007
        os.utime(os.path.join(top, path), ns=(moment, moment), follow_symlinks=False)


def make_many_files(root: Path, count: int) -> None:
    """Create a tree of small files in folders of fifty, with some hard links and symbolic links, all with distinct
    times.
    """
    generator = random.Random(count)
    previous: Path | None = None
    for number in range(count):
        folder = root / f"d{number // 2500:02d}" / f"e{number // 50:04d}"
        if number % 50 == 0:
            folder.mkdir(parents=True)
        file = folder / f"file-{number:05d}"
        if number % 17 == 3 and previous is not None:
            os.link(previous, file)
        elif number % 23 == 5:
            file.symlink_to(f"file-{number - 1:05d}")
        else:
            file.write_bytes(generator.randbytes(generator.randrange(300)))
            file.chmod(generator.choice((0o600, 0o644, 0o755)))
            previous = file
        moment = LONG_AGO + number * 1_000_003
        os.utime(file, ns=(moment, moment), follow_symlinks=False)
