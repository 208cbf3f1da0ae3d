"""A million synthetic files and a hundred days of their life, as the engine's metadata chunks.

Chunks contain whole folders, so a day's archive shares the chunks of folders without changes. Only the state of the
files is stored; chunks are generated when they are fetched.
"""

import random
import stat
import struct
from collections.abc import Generator, Iterator, Sequence
from hashlib import blake2b

import msgpack  # type: ignore[import-untyped]

FILES_PER_DIRECTORY = 12
DIRECTORIES_PER_CHUNK = 60

WORDS = [
    "report",
    "invoice",
    "photo",
    "backup",
    "notes",
    "draft",
    "final",
    "meeting",
    "budget",
    "summer",
    "winter",
    "holiday",
    "family",
    "project",
    "module",
    "index",
    "main",
    "test",
    "utils",
    "config",
    "server",
    "client",
    "model",
    "view",
    "table",
    "chart",
    "letter",
    "contract",
    "scan",
    "image",
    "video",
    "music",
    "album",
    "track",
    "cover",
    "data",
    "export",
    "import",
    "archive",
    "log",
    "trace",
    "cache",
    "build",
    "release",
    "package",
    "source",
    "header",
    "driver",
    "kernel",
    "system",
    "user",
    "admin",
    "public",
]
ENDINGS = (".txt", ".jpg", ".py", ".js", ".json", ".md", ".pdf", ".log", ".html", ".c", ".so", ".xml", "")
COMMON = ("index.js", "__init__.py", "README.md", "package.json", "LICENSE", "Makefile", ".gitignore", "main.c")


class Directory:
    __slots__ = ("mtime", "names", "path", "states")

    def __init__(self, path: str, names: list[str]) -> None:
        self.path = path
        self.names = names
        self.states = [1] * len(names)  # how often each file has been changed
        self.mtime = 1


class SyntheticArchives:
    """The file system as of the current day; `archive()` freezes it under a name."""

    latest_nanoseconds = 2**62
    major = 1

    def __init__(self, files: int, seed: int = 1) -> None:
        self._rng = random.Random(seed)
        self._serial = 0
        self._day = 1
        count = max(1, files // (FILES_PER_DIRECTORY + 1))
        self.directories = [self._directory(number) for number in range(count)]
        groups = -(-count // DIRECTORIES_PER_CHUNK)
        hot = set(self._rng.sample(range(groups), max(1, groups // 20)))
        self._hot = [number for number in range(count) if number // DIRECTORIES_PER_CHUNK in hot]
        self._chunk_version = [1] * groups
        self._archives: dict[str, list[bytes]] = {}

    @property
    def files(self) -> int:
        return sum(len(directory.names) + 1 for directory in self.directories)

    def a_day_passes(self) -> None:
        """Change 1 % of the files, add 0.2 % and remove 0.2 %: half of it in the hot folders, all of it in clusters."""
        self._day += 1
        count = len(self.directories)
        wanted = max(1, count // 100)
        for number in {self._rng.choice(self._hot) for _ in range(wanted)}:
            self._touch(number, share=0.5)
        first = self._rng.randrange(count)
        for number in range(first, first + wanted // 2 + 1):
            self._touch(number % count, share=1.0)

    def archive(self, name: str) -> None:
        self._archives[name] = [self._chunk_id(group) for group in range(len(self._chunk_version))]

    def forget(self, name: str) -> None:
        del self._archives[name]

    def chunk_ids(self, archive: str) -> list[bytes]:
        return self._archives[archive]

    def chunks(self, ids: Sequence[bytes]) -> Generator[bytes]:
        """Only chunks of the latest archive can be fetched: older days are not kept."""
        for one in ids:
            group, version = struct.unpack_from(">II", one)
            assert version == self._chunk_version[group], "an older day was asked for"
            yield b"".join(self._items(group))

    @staticmethod
    def segments(joined_ids: bytes) -> bytes:
        """Four bytes for each id: the engine's segment number, here always the first."""
        return bytes(len(joined_ids) // 32 * 4)

    stored_sizes = segments

    def _directory(self, number: int) -> Directory:
        rng = self._rng
        above = f"{WORDS[number % len(WORDS)]}{number // 4000}/{WORDS[number // 7 % len(WORDS)]}-{number // 40}"
        names = [self._name() for _ in range(FILES_PER_DIRECTORY)]
        return Directory(f"home/{above}/{rng.choice(WORDS)}_{number}", names)

    def _name(self) -> str:
        rng = self._rng
        self._serial += 1
        if rng.random() < 0.45:
            return f"{rng.choice(COMMON)}{'' if rng.random() < 0.5 else rng.randrange(40)}"
        return f"{rng.choice(WORDS)}_{rng.choice(WORDS)}-{self._serial:x}{rng.choice(ENDINGS)}"

    def _touch(self, number: int, share: float) -> None:
        directory = self.directories[number]
        self._chunk_version[number // DIRECTORIES_PER_CHUNK] += 1
        for place in range(len(directory.names)):
            if self._rng.random() < share:
                directory.states[place] += 1
        if self._rng.random() < 0.5:
            directory.mtime += 1
            directory.names.append(self._name())
            directory.states.append(1)
            gone = self._rng.randrange(len(directory.names))
            del directory.names[gone], directory.states[gone]

    def _chunk_id(self, group: int) -> bytes:
        head = struct.pack(">II", group, self._chunk_version[group])
        return head + blake2b(head, digest_size=24).digest()

    def _items(self, group: int) -> Iterator[bytes]:
        first = group * DIRECTORIES_PER_CHUNK
        for directory in self.directories[first : first + DIRECTORIES_PER_CHUNK]:
            yield self._item(directory.path, stat.S_IFDIR | 0o755, directory.mtime, 0)
            for name, state in zip(directory.names, directory.states, strict=True):
                yield self._item(f"{directory.path}/{name}", stat.S_IFREG | 0o644, state, 100 + state)

    @staticmethod
    def _item(path: str, mode: int, state: int, size: int) -> bytes:
        item = {
            "path": path,
            "mode": mode,
            "uid": 1000,
            "gid": 1000,
            "user": "user",
            "group": "user",
            "mtime": 1_700_000_000_000_000_000 + state * 1_000_000_007_000,
            "ctime": 1_700_000_000_000_000_000 + state * 1_000_000_007_000,
        }
        if size:
            chunk = blake2b(f"{path} {state}".encode(), digest_size=32).digest()
            item |= {"chunks": [[chunk, size, size]], "size": size, "hardlink_master": False}
        packed: bytes = msgpack.packb(item, use_bin_type=False)
        return packed
