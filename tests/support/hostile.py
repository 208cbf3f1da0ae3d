"""Malicious repositories, written by the engine's own code with content that it would never write."""

import json
import os
import pickle
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]

from holdfast.history.chunks.program import interpreter_of
from tests.support.warm_engines import warm_program

WRITER = Path(__file__).with_name("hostile_writer.py")
MIB = 1024 * 1024
SECONDS = 120

Chunk = bytes | tuple[bytes, bytes]


@dataclass(frozen=True)
class HostileArchive:
    name: str
    chunks: Sequence[Chunk]
    items: Sequence[int] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def as_written(self) -> dict[str, Any]:
        items = range(len(self.chunks)) if self.items is None else self.items
        return {"name": self.name, "chunks": list(self.chunks), "items": list(items), "metadata": self.metadata}


@dataclass(frozen=True)
class HostileRepository:
    program: Path
    location: Path
    major: int = 1

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.location.parent),
            "BORG_HOST_ID": "the machine of the tests",
            "BORG_BASE_DIR": str(self.location.parent / "base"),
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
            "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
            "BORG_SELFTEST": "disabled",
        }

    def run(self, *arguments: str) -> bytes:
        command = [str(warm_program(self.program)), *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def write(self, *archives: HostileArchive) -> dict[str, str]:
        """Add these archives; return the engine's id of each by name."""
        python = interpreter_of(self.program)
        assert python is not None
        done = subprocess.run(
            [*python, str(WRITER), str(self.location)],
            input=pickle.dumps([archive.as_written() for archive in archives]),
            env=self.environment,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        place = (
            ("list", "--json", str(self.location))
            if self.major == 1
            else ("-r", str(self.location), "repo-list", "--json")
        )
        listed = json.loads(self.run(*place))
        return {archive["name"]: archive["id"] for archive in listed["archives"]}


def hostile_repository(program: Path, folder: Path, major: int = 1) -> HostileRepository:
    made = HostileRepository(program, folder / "repository", major)
    folder.mkdir(parents=True, exist_ok=True)
    place = str(made.location)
    words = ("init", "--encryption", "none", place) if major == 1 else ("-r", place, "repo-create", "-e", "none-sha256")
    made.run(*words)
    return made


def item(path: bytes = b"file", **more: Any) -> bytes:
    """An item as the engine stores it, with modified fields."""
    fields = {"path": path, "mode": 0o100644, "uid": 0, "gid": 0, "user": b"root", "group": b"root", "mtime": 1, **more}
    packed: bytes = msgpack.packb(
        {name.encode(): value for name, value in fields.items() if value is not ...}, use_bin_type=False
    )
    return packed


def item_2(path: Any = "file", **more: Any) -> bytes:
    """The same for engine 2, which distinguishes text and bytes."""
    fields = {"path": path, "mode": 0o100644, "uid": 0, "gid": 0, "user": "root", "group": "root", "mtime": 1, **more}
    packed: bytes = msgpack.packb(
        {name: value for name, value in fields.items() if value is not ...},
        use_bin_type=True,
        unicode_errors="surrogateescape",
    )
    return packed


# --- bombs: content that unpacks to far more than is stored ---------------------------------------------------------


def zstd_bomb(size: int) -> tuple[bytes, bytes]:
    """A chunk of `size` equal bytes in the engine's zstd format: 4 bytes for every 128 KiB."""
    block = 128 * 1024
    head = b"\x28\xb5\x2f\xfd" + bytes([0xC0, 0x38]) + size.to_bytes(8, "little")
    blocks = []
    while size > 0:
        length = min(size, block)
        size -= length
        blocks.append(((length << 3) | (1 << 1) | (size == 0)).to_bytes(3, "little") + b"\x80")
    return _as_stored(b"\x03\x00" + head + b"".join(blocks))


def lz4_bomb(size: int) -> tuple[bytes, bytes]:
    """One literal, followed by a match that repeats it: one byte for every 255."""
    length = size - 1 - 4 - 15
    return _as_stored(b"\x01\x00" + b"\x1f\x80\x01\x00" + b"\xff" * (length // 255) + bytes([length % 255]) + b"\x00")


def zlib_bomb(size: int) -> tuple[bytes, bytes]:
    import zlib

    packer = zlib.compressobj(9)
    pieces = [packer.compress(b"\x80" * MIB) for _ in range(size // MIB)]
    return _as_stored(b"".join([*pieces, packer.flush()]))


def lzma_bomb(size: int) -> tuple[bytes, bytes]:
    import lzma

    packer = lzma.LZMACompressor(preset=0)
    pieces = [packer.compress(b"\x80" * MIB) for _ in range(size // MIB)]
    return _as_stored(b"\x02\x00" + b"".join([*pieces, packer.flush()]))


def padded_bomb(size: int) -> tuple[bytes, bytes]:
    """A zstd bomb inside the engine's format that hides the size of chunks."""
    _, inner = zstd_bomb(size)
    return _as_stored(b"\x04\x00" + len(inner).to_bytes(4, "little") + inner)


BOMBS = {"zstd": zstd_bomb, "lz4": lz4_bomb, "zlib": zlib_bomb, "lzma": lzma_bomb, "obfuscated": padded_bomb}


def _as_stored(packed: bytes) -> tuple[bytes, bytes]:
    return sha256(packed).digest(), packed
