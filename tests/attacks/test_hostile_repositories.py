"""Archives with random malice in their items: the index takes each, or refuses it in a sentence, in little memory.

Every case is an archive of its own, made from its seed: `HOLDFAST_HOSTILE_SEEDS=17` plays that one alone, `0-999` a thousand.
"""

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.archives.history.listing import ENVIRONMENT, listing_arguments
from tests.support.engines import ENGINES
from tests.support.hostile import HostileArchive, HostileRepository, hostile_repository, item
from tests.support.peak import MIB, growths_of

BOUND = 64 * MIB
IN_EVERY_RUN = 50
IN_THE_CAMPAIGN = 1000
LISTED_IN_EVERY_RUN = 4
LISTED_IN_THE_CAMPAIGN = 100
FILE, FOLDER, LINK = 0o100644, 0o040755, 0o120777


def numbers(rng: random.Random) -> Any:
    return rng.choice([-1, 0, 2**31, 2**32, 2**63 - 1, 2**64 - 1, -(2**63), None, b"text", [], {}, 1.5, True])


def paths(rng: random.Random, outside: bytes) -> Any:
    return rng.choice(
        [
            b"../evil", b"a/../../evil", b"..", b"/", b"//evil", b"./evil", outside + b"/evil", b"nul\0byte", b"", b".",
            b"caf\xe9", b"\xff\xfe", b"new\nline", b"\x1b[2J", b"<script>", b"n" * 300, b"d/" * 600 + b"x", b"tree/file",
            b"tree", b"tree/file/below", b"link/evil", b"a" * 20_000, None, 7, [], {b"a": 1},
        ]
    )  # fmt: skip


def hostile_item(rng: random.Random, outside: bytes) -> bytes:
    """An item with one to three fields that no engine writes; or what is no item at all."""
    roll = rng.random()
    if roll < 0.05:
        return rng.randbytes(rng.randrange(1, 200))
    if roll < 0.08:
        return b"\x91" * rng.randrange(1, 3000)
    fields: dict[str, Any] = {"mode": rng.choice([FILE, FOLDER, LINK, 0o10644, 0o60644]), "mtime": 1, "chunks": []}
    if fields["mode"] == LINK:
        fields["source"] = rng.choice([b"/etc", outside, b"..", b"link", b"tree"])
    for _ in range(rng.randrange(1, 4)):
        name = rng.choice(
            [
                "path",
                "path",
                "mode",
                "uid",
                "gid",
                "user",
                "group",
                "mtime",
                "source",
                "chunks",
                "size",
                "xattrs",
                "acl_access",
                "hardlink_master",
                "part",
                "rdev",
                "bsdflags",
            ]
        )
        fields[name] = _value(name, rng, outside)
    path = fields.pop("path", rng.choice([b"evil", b"tree/evil", b"link"]))
    return item(path, **fields)


def _value(name: str, rng: random.Random, outside: bytes) -> Any:
    if rng.random() < 0.15:
        return ...  # missing
    if name in ("path", "source"):
        return paths(rng, outside)
    if name == "chunks":
        unknown = [rng.randbytes(32), rng.choice([5, 2**40, -5]), 5]
        return rng.choice([[], [unknown], [[]], [unknown[:1]], [[b"short", 1, 1]], b"chunks", [[[]] * 5000], None])
    if name in ("user", "group"):
        return rng.choice([b"\xff", b"n" * 5000, b"nul\0", 5, [], None])
    return numbers(rng)


def case(seed: int, outside: Path) -> HostileArchive:
    """An honest folder and file, and hostile items before and after them."""
    rng = random.Random(f"hostile {seed}")
    honest = [
        item(b"tree", mode=FOLDER),
        item(b"tree/file", chunks=[]),
        item(b"link", mode=LINK, source=os.fsencode(outside)),
    ]
    items = [*honest, *(hostile_item(rng, os.fsencode(outside)) for _ in range(rng.randrange(1, 4)))]
    rng.shuffle(items)
    stream = b"".join(items)
    if rng.random() < 0.1:
        damaged = bytearray(stream)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        stream = bytes(damaged)
    cut = rng.randrange(1, len(stream))
    return HostileArchive(f"case-{seed:06}", [stream[:cut], stream[cut:]] if rng.random() < 0.5 else [stream])


def wanted_seeds(usual: int) -> list[int]:
    given = os.environ.get("HOLDFAST_HOSTILE_SEEDS")
    if given is None:
        return list(range(usual))
    first, _, last = given.partition("-")
    return list(range(int(first), int(last or first) + 1))


INDEXED = """
from pathlib import Path
from holdfast.archives.history.chunks.client import EngineChunks
from holdfast.archives.history.errors import HistoryError
from holdfast.archives.history.index import HistoryIndex
from holdfast.archives.history.sqlite import SqliteStore
program, repository, ids, folder, environment = sys.argv[1:]
index = HistoryIndex(SqliteStore.create(Path(folder) / "index.db"))
def indexed(engine_id):
    try:
        index.ingest_chunks(engine_id, chunks, series="series")
    except HistoryError as error:
        return f"refused: {type(error).__name__}: {error}"
    for directory in (b"", b"tree", b"..", b"link"):
        index.browse(engine_id, directory, limit=100)
    return "indexed"
with EngineChunks(Path(program), repository, environment=json.loads(environment)) as chunks:
    measured(lambda: {name: indexed(engine_id) for name, engine_id in json.loads(ids).items()})
"""

LISTED = """
from pathlib import Path
from holdfast.archives.history.errors import ListingFailed
from holdfast.archives.live_browse import page_of_listing
def listed(file):
    try:
        page_of_listing(file, b"tree", 100, None)
    except ListingFailed as error:
        return f"refused: {error}"
    return "listed"
measured(lambda: {str(file): listed(file) for file in Path(sys.argv[1]).iterdir()})
"""


@pytest.mark.parametrize(
    ("cases", "listed"),
    [
        pytest.param(IN_EVERY_RUN, LISTED_IN_EVERY_RUN, id="few"),
        pytest.param(IN_THE_CAMPAIGN, LISTED_IN_THE_CAMPAIGN, id="many", marks=pytest.mark.campaign),
    ],
)
def test_every_hostile_archive_is_indexed_or_refused_in_a_sentence(tmp_path: Path, cases: int, listed: int) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    made = hostile_repository(ENGINES["1.4"], tmp_path / "engine")
    seeds = wanted_seeds(cases)
    ids = made.write(*(case(seed, outside) for seed in seeds))
    assert len(ids) == len(seeds)

    environment = json.dumps(made.environment)
    place = (str(made.program), str(made.location))
    ((growth, results),) = growths_of(INDEXED, *place, json.dumps(ids), str(tmp_path), environment, seconds=1800)
    assert growth < BOUND
    assert isinstance(results, dict), results
    assert results.keys() == ids.keys()

    listings = tmp_path / "listings"
    listings.mkdir()
    for name in list(ids)[:: max(1, len(ids) // listed)]:
        write_listing(made, name, listings / name)
    ((growth, shown),) = growths_of(LISTED, str(listings), seconds=600)
    assert growth < BOUND
    assert isinstance(shown, dict), shown
    assert os.listdir(outside) == []


def write_listing(made: HostileRepository, name: str, file: Path) -> None:
    """What the engine prints of an archive, up to where it gives up."""
    command = [str(made.program), *listing_arguments(str(made.location), name)]
    environment = {**made.environment, **ENVIRONMENT}
    with file.open("wb") as output:
        subprocess.run(command, env=environment, stdout=output, stderr=subprocess.DEVNULL, timeout=120, check=False)
