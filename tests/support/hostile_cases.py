"""Archives with random malice in their items, each determined by its seed."""

import os
import random
from pathlib import Path
from typing import Any

from tests.support.hostile import HostileArchive, item, item_2

FILE, FOLDER, LINK = 0o100644, 0o040755, 0o120777
MODES = [FILE, FOLDER, LINK, 0o10644, 0o60644]
TEXTS = {"path", "source", "target", "user", "group"}
"""Fields that are text in engine 2 and bytes in engine 1."""
FIELDS = {
    1: [
        *("path", "path", "mode", "uid", "gid", "user", "group", "mtime", "source", "chunks", "size", "xattrs"),
        *("acl_access", "hardlink_master", "part", "rdev", "bsdflags"),
    ],
    2: [
        *("path", "path", "mode", "uid", "gid", "user", "group", "mtime", "target", "chunks", "size", "xattrs"),
        *("acl_access", "hlid", "hlid", "inode", "rdev", "bsdflags", "atime", "digests"),
    ],
}


def wanted_seeds(usual: int) -> list[int]:
    given = os.environ.get("HOLDFAST_HOSTILE_SEEDS")
    if given is None:
        return list(range(usual))
    first, _, last = given.partition("-")
    return list(range(int(first), int(last or first) + 1))


def case(seed: int, outside: Path, major: int = 1) -> HostileArchive:
    """Build an archive with an honest folder, file and link, and hostile items before and after them."""
    rng = random.Random(f"hostile {seed}" if major == 1 else f"hostile, engine 2 {seed}")
    far = os.fsencode(outside)
    honest = [
        packed(major, b"tree", mode=FOLDER),
        packed(major, b"tree/file", chunks=[]),
        packed(major, b"link", mode=LINK, **{link_field(major): far}),
    ]
    # Engine 2 rejects values of a wrong type at once; those that it accepts get further.
    is_typed = major == 2 and rng.random() < 0.7
    items = [*honest, *(hostile_item(rng, far, major, is_typed) for _ in range(rng.randrange(1, 4)))]
    rng.shuffle(items)
    stream = b"".join(items)
    if not is_typed and rng.random() < 0.1:
        damaged = bytearray(stream)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        stream = bytes(damaged)
    cut = rng.randrange(1, len(stream))
    return HostileArchive(f"case-{seed:06}", [stream[:cut], stream[cut:]] if rng.random() < 0.5 else [stream])


def link_field(major: int) -> str:
    return "source" if major == 1 else "target"


def packed(major: int, path: Any, **fields: Any) -> bytes:
    """An item as the engine would store it, with text where that engine uses text."""
    if major == 1:
        return item(path, **fields)
    values = {"path": path, **fields}
    return item_2(**{name: _text(value) if name in TEXTS else value for name, value in values.items()})


def _text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def hostile_item(rng: random.Random, outside: bytes, major: int, is_typed: bool) -> bytes:
    """An item with one to three fields that no engine writes, or data that is not an item at all."""
    roll = 1.0 if is_typed else rng.random()
    if roll < 0.05:
        return rng.randbytes(rng.randrange(1, 200))
    if roll < 0.08:
        return b"\x91" * rng.randrange(1, 3000)
    fields: dict[str, Any] = {"mode": rng.choice(MODES), "mtime": 1, "chunks": []}
    if fields["mode"] == LINK:
        fields[link_field(major)] = rng.choice([b"/etc", outside, b"..", b"link", b"tree"])
    for _ in range(rng.randrange(1, 4)):
        name = rng.choice(FIELDS[major])
        fields[name] = _typed(name, rng, outside) if is_typed else _value(name, rng, outside)
    path = fields.pop("path", rng.choice([b"evil", b"tree/evil", b"link"]))
    return packed(major, path, **fields)


def _typed(name: str, rng: random.Random, outside: bytes) -> Any:
    """A value of the right type that no honest archive contains."""
    if name in ("path", "target"):
        return rng.choice([each for each in PATHS if each is not None] + [outside + b"/evil", outside + b"/victim"])
    if name == "chunks":
        return rng.choice([[], [[rng.randbytes(32), rng.choice([5, 2**40])]], [[rng.randbytes(32), 0]] * 50])
    if name in ("user", "group"):
        return rng.choice([b"\xff", b"n" * 5000, b"nul\0", b"", b"\x1b[2J"])
    if name in ("hlid", "acl_access"):
        return rng.choice([b"one" * 10, b"two" * 10, b"", b"\xff" * 5000])
    if name == "xattrs":
        return rng.choice([{}, {b"user.evil": b"x" * 70_000}, {b"security.capability": b"\1\0\0\2"}, {b"\0": None}])
    if name == "digests":
        return {}
    return rng.choice([-1, 0, 0o4777, 2**31, 2**32, 2**63 - 1, -(2**63), 2**64 - 1])


def _value(name: str, rng: random.Random, outside: bytes) -> Any:
    if rng.random() < 0.15:
        return ...  # missing
    if name in ("path", "source", "target"):
        return paths(rng, outside)
    if name == "chunks":
        unknown = [rng.randbytes(32), rng.choice([5, 2**40, -5]), 5]
        return rng.choice(
            [[], [unknown], [unknown[:2]], [[]], [unknown[:1]], [[b"short", 1, 1]], b"chunks", [[[]] * 5000], None]
        )
    if name in ("user", "group"):
        return rng.choice([b"\xff", b"n" * 5000, b"nul\0", 5, [], None])
    if name == "hlid":
        return rng.choice([b"one" * 10, b"two" * 10, b"", "text", 5, None])
    return numbers(rng)


def numbers(rng: random.Random) -> Any:
    return rng.choice([-1, 0, 2**31, 2**32, 2**63 - 1, 2**64 - 1, -(2**63), None, b"text", [], {}, 1.5, True])


def paths(rng: random.Random, outside: bytes) -> Any:
    return rng.choice([*PATHS, outside + b"/evil", 7, [], {b"a": 1}])


PATHS = [
    b"../evil", b"a/../../evil", b"..", b"/", b"//evil", b"./evil", b"nul\0byte", b"", b".", b"caf\xe9", b"\xff\xfe",
    b"new\nline", b"\x1b[2J", b"<script>", b"n" * 300, b"d/" * 600 + b"x", b"tree/file", b"tree", b"tree/file/below",
    b"link/evil", b"a" * 20_000, None,
]  # fmt: skip
