"""Archives with random hostile items: a check by chunks proves only what the engine can extract, or leaves it to the
engine.

Seeds as in `test_hostile_repositories`.
"""

import json
import subprocess
from pathlib import Path

import pytest

from backup_engine.borg1.list_files import RECORD_FORMAT
from holdfast.maintenance.file_records import extent_of, read_records
from tests.support.engines import ENGINES
from tests.support.hostile import HostileRepository, hostile_repository
from tests.support.hostile_cases import case, wanted_seeds
from tests.support.peak import MIB, growths_of

BOUND = 64 * MIB
IN_EVERY_RUN = 50
IN_THE_CAMPAIGN = 1000

CHECKED = """
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from holdfast.history.chunks.archive_chunks import ArchiveChunks
from holdfast.history.errors import HistoryError
from holdfast.maintenance.by_chunks import NotByChunks, CheckScope, read_by_chunks
from holdfast.reading.archive_verification import OpenedArchive
program, repository, ids, environment = sys.argv[1:]
class Readers:
    @contextmanager
    def opened(self, work, archive):
        try:
            yield OpenedArchive(chunks, archive)
        except HistoryError as error:
            raise NotByChunks(str(error)) from error
context = SimpleNamespace(require_going_on=lambda: None, report=lambda **progress: None)
def checked(engine_id):
    for wanted in (CheckScope(sample=100, seed="seed"), CheckScope()):
        found = dict(read_by_chunks(SimpleNamespace(context=context), Readers(), engine_id, wanted))
        assert chunks.is_usable
    return found
with ArchiveChunks(Path(program), repository, environment=json.loads(environment)) as chunks:
    measured(lambda: {name: checked(engine_id) for name, engine_id in json.loads(ids).items()})
"""


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(IN_EVERY_RUN, id="few"),
        pytest.param(IN_THE_CAMPAIGN, id="many", marks=pytest.mark.campaign),
    ],
)
def test_the_engine_extracts_whatever_a_check_by_chunks_proves_of_a_hostile_archive(tmp_path: Path, cases: int) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    made = hostile_repository(ENGINES["1.4"], tmp_path / "engine")
    ids = made.write(*(case(seed, outside) for seed in wanted_seeds(cases)))

    place = (str(made.program), str(made.location), json.dumps(ids), json.dumps(made.environment))
    ((growth, results),) = growths_of(CHECKED, *place, seconds=1800)

    assert growth < BOUND
    assert isinstance(results, dict), results
    assert results.keys() == ids.keys()
    assert all("reason" in found or "files" in found for found in results.values())
    proven = {name: found for name, found in results.items() if "reason" not in found}
    assert proven
    for name, found in proven.items():
        assert extracted(made, name, tmp_path) == (found["files"], found["bytes"]), name


def extracted(made: HostileRepository, name: str, folder: Path) -> tuple[int, int]:
    """The files and bytes of an archive that the engine lists, and extracts in a dry run without a warning."""
    listing = folder / "listing"
    listing.write_bytes(made.run("list", f"--format={RECORD_FORMAT}", f"{made.location}::{name}"))
    command = [str(made.program), "extract", "--dry-run", f"{made.location}::{name}"]
    ran = subprocess.run(command, env=made.environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    extent = extent_of(read_records(listing))
    return extent.files, extent.bytes
