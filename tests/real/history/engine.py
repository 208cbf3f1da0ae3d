"""A real repository to index: a changing tree, archives of it, and what the engine itself reports about them."""

import json
import os
import random
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from backup_engine.borg2.list_files import ADDED_KEYS
from holdfast.history.chunks.file_chunks import FileChunks
from holdfast.history.chunks.metadata_chunks import EngineChunks
from holdfast.history.entry import Entry, printable
from holdfast.history.index import HistoryIndex
from holdfast.history.ingest import IngestResult
from holdfast.history.json_listing import JsonListing
from holdfast.history.listing import ENVIRONMENT, Listing, listing_arguments
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.warm_engines import warm_program

PASSPHRASE = "not a secret"
SECONDS = 60
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the engine prints UTC without saying so


@dataclass
class RealRepository:
    program: Path
    folder: Path
    location: str = ""
    ids: dict[str, str] = field(default_factory=dict)  # name → engine id

    major = 1

    def __post_init__(self) -> None:
        self.location = self.location or str(self.folder / "repository")
        self.tree.mkdir(parents=True, exist_ok=True)

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "BORG_HOST_ID": "the machine of the tests",
            **ENVIRONMENT,
            "BORG_BASE_DIR": str(self.folder / "base"),
            "BORG_PASSPHRASE": PASSPHRASE,
            "BORG_SELFTEST": "disabled",
            "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
        }

    def run(self, *arguments: str) -> bytes:
        done = subprocess.run(
            [warm_program(self.program), *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def init(self) -> "RealRepository":
        self.run("init", "--encryption", "repokey-blake2", self.location)
        return self

    def create(self, name: str, *options: str) -> None:
        self.run("create", *options, f"{self.location}::{name}", "tree")
        self.refresh()

    def refresh(self) -> None:
        listed = json.loads(self.run("list", "--json", self.location))
        self.ids = {archive["name"]: archive["id"] for archive in listed["archives"]}

    def extract(self, name: str, path: str) -> bytes:
        return self.run("extract", "--stdout", f"{self.location}::{name}", path)

    def check(self) -> None:
        self.run("check", self.location)

    def writers(self, rng: random.Random) -> Iterator[list[str]]:
        """Commands that write but keep the archive `keep`. The first two move nearly all of its chunks."""
        yield ["delete", f"{self.location}::day0"]
        for number in count(1):
            yield ["compact", "--threshold", "1", self.location]
            mutate(self.tree, rng)
            yield ["create", f"{self.location}::day{number}", "tree"]
            yield ["prune", "--keep-last", "2", "--glob-archives", "day*", self.location]

    def chunks(self) -> EngineChunks:
        return EngineChunks(self.program, self.location, environment=self.environment, lock_wait=10, major=self.major)

    def files(self) -> FileChunks:
        return FileChunks(self.program, self.location, environment=self.environment, major=self.major)

    def ingest_listing(self, index: HistoryIndex, name: str, base: str | None = None) -> IngestResult:
        command = [str(self.program), *listing_arguments(self.location, name)]
        with subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            return index.ingest_listing(self.ids[name], Listing(process.stdout, process.wait), base=base)

    def json_lines(self, *arguments: str) -> Iterator[dict[str, Any]]:
        for line in self.run(*arguments).decode("utf-8", "surrogateescape").splitlines():
            yield json.loads(line)

    def listed_by_engine(self, name: str) -> dict[bytes, tuple[object, ...]]:
        """What `borg list --json-lines` reports, under the names it prints."""
        found: dict[bytes, tuple[object, ...]] = {}
        for item in self.json_lines("list", "--json-lines", f"{self.location}::{name}"):
            path = item["path"].encode("utf-8", "surrogateescape")
            assert path not in found, "two files are printed under one name: give the tree other names"
            time = datetime.fromisoformat(item["mtime"]).replace(tzinfo=None)
            size = None if item["type"] == "l" else item["size"]
            found[path] = (
                item["type"],
                item["mode"][1:],
                item["uid"],
                item["gid"],
                size,
                time,
                item["linktarget"].encode(),
            )
        return found

    def changed_by_engine(self, before: str, after: str) -> dict[bytes, str]:
        """What `borg diff` reports: added, removed or modified. A changed ctime alone does not count as a change."""
        found = {}
        for item in self.json_lines("diff", "--json-lines", f"{self.location}::{before}", after):
            path = printable(item["path"].encode("utf-8", "surrogateescape"))
            kinds = {change["type"] for change in item["changes"] if not _is_nothing(change)}
            if kinds & {"added", "added directory", "added link"}:
                found[path] = "added"
            elif kinds & {"removed", "removed directory", "removed link"}:
                found[path] = "removed"
            elif kinds - {"ctime"}:
                found[path] = "modified"
        return found


class RealRepository2(RealRepository):
    """The same for engine 2."""

    major = 2

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "BORG_REPO": self.location}

    def init(self) -> "RealRepository":
        self.run("repo-create", "--encryption=aes256-ocb", "--id-hash=sha256", "--key-location=repokey")
        return self

    def create(self, name: str, *options: str) -> None:
        self.run("create", *options, name, "tree")
        self.refresh()

    def refresh(self) -> None:
        listed = json.loads(self.run("repo-list", "--json"))
        self.ids = {archive["name"]: archive["id"] for archive in listed["archives"]}

    def extract(self, name: str, path: str) -> bytes:
        return self.run("extract", "--stdout", name, path)

    def check(self) -> None:
        self.run("check")

    def writers(self, rng: random.Random) -> Iterator[list[str]]:
        patient = ("--lock-wait", "60")  # the default of one second is too short on a busy machine
        yield [*patient, "delete", "day0"]
        for number in count(1):
            yield [*patient, "compact"]
            mutate(self.tree, rng)
            yield [*patient, "create", f"day{number}", "tree"]
            yield [*patient, "prune", "--keep", "2", "--match-archives", "sh:day*"]

    def ingest_listing(self, index: HistoryIndex, name: str, base: str | None = None) -> IngestResult:
        command = [str(self.program), "list", "--json-lines", f"--format={ADDED_KEYS}", name]
        with subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            return index.ingest_listing(self.ids[name], JsonListing(process.stdout, process.wait), base=base)


def new_repository(engine: str, folder: Path) -> RealRepository:
    """Return a new repository for engine "1.2", "1.4" or "2.0"."""
    if engine == "2.0":
        assert ENGINE_2 is not None
        return RealRepository2(ENGINE_2, folder).init()
    return RealRepository(ENGINES[engine], folder).init()


ALL_ENGINES = [*sorted(ENGINES), *(["2.0"] if ENGINE_2 else [])]


def _is_nothing(change: dict[str, Any]) -> bool:
    return change["type"] == "modified" and change.get("added") == 0 and change.get("removed") == 0


def as_listed_by_engine(entry: Entry) -> tuple[object, ...]:
    letters = stat.filemode(entry.mode)
    time = _EPOCH + timedelta(microseconds=entry.mtime)
    size = None if entry.type == "l" else entry.size
    return letters[0], letters[1:], entry.uid, entry.gid, size, time, printable(entry.link)


ODD = [
    b"caf\xe9",
    b"new\nline",
    b"tab\there",
    b"what?",
    b'it\'s "so"',
    "Straße".encode(),
    b"UPPER",
    b"upper",
    b" ",
    b"-x",
]


def plant(tree: Path, rng: random.Random, files: int = 40) -> None:
    """Fill a tree with everything an archive can hold."""
    for number in range(files // 8):
        (tree / f"dir{number}" / "sub").mkdir(parents=True, exist_ok=True)
    for name in ODD:
        (tree / "dir0" / os.fsdecode(name)).write_bytes(name)
    (tree / "dir1" / "sub" / ("n" * 200)).write_bytes(b"deep")
    os.link(tree / "dir0" / "UPPER", tree / "dir1" / "hard")
    (tree / "dir0" / "link").symlink_to("dir1/nowhere")
    (tree / "dir0" / "oddlink").symlink_to(os.fsdecode(b"caf\xe9"))
    os.mkfifo(tree / "dir1" / "fifo")
    for _ in range(files):
        _write(_some_place(tree, rng), rng)


def mutate(tree: Path, rng: random.Random, changes: int = 8) -> None:
    """Change the tree as a day's work would."""
    files = sorted(
        path for path in tree.rglob("f*") if path.is_file() and not path.is_symlink() and path.name != "fifo"
    )
    for path in rng.sample(files, min(changes, len(files))):
        roll = rng.random()
        if roll < 0.25:
            path.unlink()
        elif roll < 0.5:
            _write(path, rng)
        elif roll < 0.6:
            path.chmod(rng.choice([0o600, 0o640, 0o755, 0o2755]))
        elif roll < 0.7 and os.geteuid() == 0:
            os.chown(path, rng.randrange(3), rng.randrange(3))
        elif roll < 0.8:
            path.rename(path.with_name(f"f-moved-{rng.randrange(1000)}"))
        elif roll < 0.9:
            os.utime(path, ns=(0, rng.randrange(2 * 10**18)))
        else:
            _rewrite_behind_the_same_face(path, rng)
    for _ in range(changes // 3):
        _write(_some_place(tree, rng), rng)
    if rng.random() < 0.5:
        fresh = tree / f"dir-new-{rng.randrange(1000)}"
        fresh.mkdir(exist_ok=True)
        _write(fresh / "f", rng)


def _some_place(tree: Path, rng: random.Random) -> Path:
    return rng.choice(sorted(path for path in tree.rglob("*") if path.is_dir())) / f"f{rng.randrange(10_000)}"


def _write(path: Path, rng: random.Random) -> None:
    path.write_bytes(rng.randbytes(rng.choice([0, 1, 100, 3000])))


def _rewrite_behind_the_same_face(path: Path, rng: random.Random) -> None:
    """Write different content with the same size and time, so that only the content shows the change."""
    before = path.stat()
    path.write_bytes(rng.randbytes(before.st_size))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
