"""Archives with random hostile items: the index accepts each or refuses it with a clear error, using little memory.

Every case is its own archive, generated from its seed: `HOLDFAST_HOSTILE_SEEDS=17` runs only that one, `0-999` a
thousand.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from holdfast.history.listing import ENVIRONMENT, listing_arguments
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.hostile import HostileRepository, hostile_repository
from tests.support.hostile_cases import case, wanted_seeds
from tests.support.peak import MIB, growths_of

BOUND = 64 * MIB
IN_EVERY_RUN = 50
IN_THE_CAMPAIGN = 1000
LISTED_IN_EVERY_RUN = 4
LISTED_IN_THE_CAMPAIGN = 100

INDEXED = """
from pathlib import Path
from holdfast.history.chunks.metadata_chunks import EngineChunks
from holdfast.history.errors import HistoryError
from holdfast.history.index import HistoryIndex
from holdfast.history.sqlite import SqliteStore
program, repository, ids, folder, environment, major = sys.argv[1:]
index = HistoryIndex(SqliteStore.create(Path(folder) / "index.db"))
def indexed(engine_id):
    try:
        index.ingest_chunks(engine_id, chunks, series="series")
    except HistoryError as error:
        return f"refused: {type(error).__name__}: {error}"
    for directory in (b"", b"tree", b"..", b"link"):
        index.browse(engine_id, directory, limit=100)
    return "indexed"
with EngineChunks(Path(program), repository, environment=json.loads(environment), major=int(major)) as chunks:
    measured(lambda: {name: indexed(engine_id) for name, engine_id in json.loads(ids).items()})
"""

LISTED = """
from pathlib import Path
from holdfast.history.errors import ListingFailed
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
def test_every_hostile_archive_is_indexed_or_refused_with_a_clear_error(
    tmp_path: Path, cases: int, listed: int
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    made = hostile_repository(ENGINES["1.4"], tmp_path / "engine")
    seeds = wanted_seeds(cases)
    ids = made.write(*(case(seed, outside) for seed in seeds))
    assert len(ids) == len(seeds)

    environment = json.dumps(made.environment)
    place = (str(made.program), str(made.location))
    ((growth, results),) = growths_of(INDEXED, *place, json.dumps(ids), str(tmp_path), environment, "1", seconds=1800)
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


@pytest.mark.campaign
@pytest.mark.skipif(ENGINE_2 is None, reason="needs engine 2")
def test_every_hostile_archive_of_engine_2_is_indexed_or_refused_with_a_clear_error(tmp_path: Path) -> None:
    assert ENGINE_2 is not None
    outside = tmp_path / "outside"
    outside.mkdir()
    made = hostile_repository(ENGINE_2, tmp_path / "engine", 2)
    ids = made.write(*(case(seed, outside, 2) for seed in wanted_seeds(200)))
    words = (str(made.program), str(made.location), json.dumps(ids), str(tmp_path), json.dumps(made.environment), "2")
    ((growth, results),) = growths_of(INDEXED, *words, seconds=1800)
    assert growth < BOUND
    assert isinstance(results, dict), results
    assert results.keys() == ids.keys()
    assert os.listdir(outside) == []


def write_listing(made: HostileRepository, name: str, file: Path) -> None:
    """Write what the engine lists of an archive, until it gives up."""
    command = [str(made.program), *listing_arguments(str(made.location), name)]
    environment = {**made.environment, **ENVIRONMENT}
    with file.open("wb") as output:
        subprocess.run(command, env=environment, stdout=output, stderr=subprocess.DEVNULL, timeout=120, check=False)
