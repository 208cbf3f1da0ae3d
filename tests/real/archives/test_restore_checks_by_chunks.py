"""Restore checks by chunks and by the engine: the same findings, and the engine has the last word."""

import hashlib
import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.history import columns
from holdfast.history.schema import CHUNK_SIZE, VERSION_CHUNK
from holdfast.history.sqlite import SqliteStore
from tests.real.archives.service import Installed, Shelf
from tests.real.archives.test_both_routes import force_listing
from tests.real.history.engine import plant
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.processes import children_of, command_line
from tests.support.service import wait_until
from tests.support.sshd import sshd

SEEDS = random.Random(65)
SECRET = {"encryption": "aes256-ocb", "passphrase": "a passphrase of the tests"}


def checked(shelf: Shelf, **body: Any) -> dict[str, Any]:
    answer = shelf.client.post(f"{shelf.url}/restore-check", json=body)
    assert answer.status_code == 200, answer.text
    return end_of(shelf, answer.json()["job_id"])


def end_of(shelf: Shelf, job: int) -> dict[str, Any]:
    shelf.client.wait_for_end(job)
    ended: dict[str, Any] = shelf.client.get(f"/api/repositories/restore-check-jobs/{job}").json()
    return ended


def by_engine(shelf: Shelf, **body: Any) -> dict[str, Any]:
    """The same check, as if chunks could not be read."""
    verdicts = shelf.installed.folder / "data" / "history" / "routes.json"
    kept = verdicts.read_text()
    force_listing(shelf.installed)
    try:
        ended = checked(shelf, **body)
    finally:
        verdicts.write_text(kept)
    assert ended["result"]["read_by"] == "engine"
    assert [line for line in log_of(shelf, ended) if line.startswith("Read by the engine: ")], "it says why"
    return ended


def findings(shelf: Shelf, ended: dict[str, Any]) -> dict[str, Any]:
    """Everything that a check reports, except how the archive was read."""
    result = {key: value for key, value in ended["result"].items() if key != "read_by"}
    log = [line for line in log_of(shelf, ended) if not line.startswith(("$ ", "Read by the engine: "))]
    told = {key: ended[key] for key in ("status", "error_key", "error_message", "archive_name", "warnings")}
    return {**told, "result": result, "log": log}


def log_of(shelf: Shelf, ended: dict[str, Any]) -> list[str]:
    return shelf.client.log_lines(ended["id"])


def fill(shelf: Shelf) -> None:
    """Fill the source with all that an archive can hold: also a sparse file, a large one, and one of equal content."""
    plant(shelf.source, SEEDS)
    large = SEEDS.randbytes(20_000_000)
    (shelf.source / "large").write_bytes(large)
    (shelf.source / "again").write_bytes(large[:12_000_000])
    with (shelf.source / "sparse").open("wb") as file:
        file.truncate(30_000_000)
        file.seek(10_000_000)
        file.write(b"an island")
    (shelf.source / "no files").mkdir()


@pytest.fixture(scope="module")
def by_chunks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """A service with both engines."""
    installed = Installed.start(tmp_path_factory.mktemp("checks"), scripted=False, HOLDFAST_BORG2=str(ENGINE_2 or ""))
    yield installed
    installed.process.stop(60)


@pytest.fixture(scope="module", params=["1", pytest.param("2", marks=pytest.mark.skipif(not ENGINE_2, reason="none"))])
def shelf(request: pytest.FixtureRequest, by_chunks: Installed) -> Shelf:
    """A repository with one archive of everything."""
    settings = SECRET if request.param == "2" else {"encryption": "repokey-blake2", "passphrase": SECRET["passphrase"]}
    made = by_chunks.new_shelf(engine_version=int(request.param), index_mode="off", **settings)
    fill(made)
    backup = made.client.wait_for_end(made.client.start_backup(made.repository))
    assert backup["status"] in ("completed", "completed_with_warnings")
    return made


def bodies(shelf: Shelf) -> dict[str, dict[str, Any]]:
    def inside(name: str) -> str:
        return str(shelf.source / name)

    known = hashlib.sha256((shelf.source / "large").read_bytes()).hexdigest()
    return {
        "everything": {"full_archive": True},
        "a sample of all": {"sample": 1000},
        "a folder": {"paths": [inside("dir0")]},
        "a file and one of two names of a file": {"paths": [inside("sparse"), inside("dir1/hard")]},
        "a folder without files": {"paths": [inside("no files")]},
        "a path that is not there": {"paths": [inside("large"), inside("larg")]},
        "paths within each other": {"paths": [inside("dir0"), inside("dir0/UPPER")]},
        "a known file": {"canary": {"path": inside("large"), "sha256": known}},
        "a file of this machine": {"canary": {"path": inside("sparse")}},
        "another content": {"canary": {"path": inside("large"), "sha256": "0" * 64}},
        "a folder as a known file": {"canary": {"path": inside("dir0"), "sha256": known}},
    }


FALLS_BACK = {"a path that is not there", "paths within each other", "a folder as a known file"}


def test_a_check_by_chunks_finds_what_the_engine_finds(shelf: Shelf) -> None:
    for what, body in bodies(shelf).items():
        ended = checked(shelf, **body)

        assert ended["result"]["read_by"] == ("engine" if what in FALLS_BACK else "chunks"), (
            what,
            log_of(shelf, ended),
        )
        assert findings(shelf, ended) == findings(shelf, by_engine(shelf, **body)), what


def test_a_sample_has_the_requested_size_and_reports_the_totals_of_the_archive(shelf: Shelf) -> None:
    whole = checked(shelf, full_archive=True)["result"]

    result = checked(shelf, sample=7)["result"]

    assert (result["read_by"], result["files_proven"], result["files_checked"]) == ("chunks", 7, 7)
    assert result["files_in_archive"] == whole["files_proven"]
    assert result["bytes_in_archive"] == whole["bytes_proven"]
    assert result["bytes_proven"] == result["bytes_checked"]


def test_a_check_of_an_archive_without_files_warns_on_both_routes(by_chunks: Installed) -> None:
    shelf = by_chunks.new_shelf(index_mode="off")
    for file in shelf.source.iterdir():
        file.unlink()
    shelf.make("empty-2026-02-01")
    (archive,) = by_chunks.own.archives(shelf.repository)
    by_chunks.own.run("recreate", "--exclude", "re:file|only-in", f"{shelf.repository['path']}::{archive}")

    ended = checked(shelf)

    assert (ended["status"], ended["result"]["read_by"]) == ("completed_with_warnings", "chunks")
    assert findings(shelf, ended) == findings(shelf, by_engine(shelf))


# --- where the engine has the last word -----------------------------------------------------------------------------

PUT_ANOTHER = """
import sys
from borg.logger import setup_logging
from borg.repository import Repository
setup_logging(level="error")
with Repository(sys.argv[1], exclusive=True, lock_wait=60) as repository:
    first, second = (bytes.fromhex(chunk) for chunk in sys.argv[2:])
    stored = repository.get(second)
    repository.put(first, stored)
    repository.commit(compact=False)
"""


def segments(shelf: Shelf) -> list[Path]:
    return sorted(file for file in Path(shelf.repository["path"], "data").rglob("*") if file.is_file())


def flip_a_byte(shelf: Shelf) -> None:
    largest = max(segments(shelf), key=lambda segment: segment.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 0xFF
    largest.write_bytes(content)


def replace_a_chunk(shelf: Shelf) -> None:
    """Replace the content of one file by that of another: readable, but not matching its id."""
    ids = [
        hashlib.sha256((shelf.source / name).read_bytes()).hexdigest() for name in ("file-0", "file-1")
    ]  # the id of a chunk of a repository without encryption
    interpreter = ENGINES["1.4"].read_text(errors="replace").splitlines()[0].removeprefix("#!").split()[0]
    run_in(shelf, interpreter, "-c", PUT_ANOTHER, shelf.repository["path"], *ids)


def run_in(shelf: Shelf, *command: str) -> None:
    ran = subprocess.run(command, env=shelf.installed.own.environment(), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("damage", [flip_a_byte, replace_a_chunk])
def test_in_a_damaged_repository_the_engine_reports_what_is_damaged(
    by_chunks: Installed, damage: Callable[[Shelf], None]
) -> None:
    shelf = by_chunks.new_shelf(index_mode="off")
    (shelf.source / "large").write_bytes(random.Random(1).randbytes(3_000_000))
    by_chunks.own.run("create", f"{shelf.repository['path']}::archive", str(shelf.source))
    damage(shelf)

    for body in ({"full_archive": True}, {"sample": 1000}):
        ended = checked(shelf, **body)

        assert (ended["status"], ended["error_key"]) == ("failed", "engine.damaged")
        result = ended["result"]
        assert (result["read_by"], result["files_checked"]) == ("engine", 4)
        assert result["files_proven"] < 4
        assert result["problems"]
        assert [line for line in log_of(shelf, ended) if line.startswith("Read by the engine: ")], "it says why"
    assert shelf.client.get(shelf.url).json()["last_restore_check"] is None


def test_a_check_does_not_trust_the_chunks_recorded_in_the_index(by_chunks: Installed) -> None:
    """In the spoiled index, all files have the chunks of one that is intact."""
    shelf = by_chunks.new_shelf()
    (shelf.source / "large").write_bytes(random.Random(2).randbytes(3_000_000))
    shelf.make("series-2026-02-01")
    shelf.resync()
    assert shelf.history_runs()[-1]["result"]["routes"] == {"chunks": 1}
    spoil_the_index(shelf)
    assert checked(shelf, full_archive=True)["result"]["files_proven"] == 5
    flip_a_byte(shelf)

    ended = checked(shelf, full_archive=True)

    assert (ended["status"], ended["error_key"]) == ("failed", "engine.damaged")


def spoil_the_index(shelf: Shelf) -> None:
    store = SqliteStore(shelf.index_file)
    with store.exclusive(), store.write() as transaction:
        sizes = columns.load(transaction, CHUNK_SIZE)
        smallest = int(np.argmin(np.where(sizes == 0, 2**32 - 1, sizes)))
        versions = np.flatnonzero(columns.load(transaction, VERSION_CHUNK))
        columns.update(transaction, VERSION_CHUNK, versions, np.full(len(versions), smallest))
    store.close()


# --- an operation like any other ------------------------------------------------------------------------------------


def helper_of(shelf: Shelf) -> int | None:
    process = shelf.installed.process.process
    assert process is not None
    found = [pid for pid in children_of(process.pid) if "chunks/helper" in command_line(pid)]
    return found[0] if found else None


def start_and_hold(shelf: Shelf) -> tuple[int, int]:
    """Start a check and stop its helper in the middle; return the operation and the helper."""
    wait_until(lambda: helper_of(shelf) is None, what="no other helper is there")
    job: int = shelf.client.post(f"{shelf.url}/restore-check", json={"full_archive": True}).json()["job_id"]
    found: list[int] = []

    def is_there() -> bool:
        pid = helper_of(shelf)
        if pid is not None:
            os.kill(pid, signal.SIGSTOP)
            found.append(pid)
        return bool(found)

    wait_until(is_there, what="the helper has started")
    return job, found[0]


@pytest.fixture
def small(by_chunks: Installed) -> Shelf:
    shelf = by_chunks.new_shelf(index_mode="off")
    shelf.make("series-2026-02-01")
    assert checked(shelf, full_archive=True)["result"]["read_by"] == "chunks"
    return shelf


def test_a_check_whose_helper_hangs_is_cancelled_within_seconds(small: Shelf) -> None:
    job, helper = start_and_hold(small)
    assert small.client.operation(job)["status"] == "running"
    assert small.client.post(f"/api/operations/{job}/cancel").status_code == 200

    ended = end_of(small, job)

    assert (ended["status"], ended["result"]["files_proven"]) == ("cancelled", 0)
    wait_until(lambda: command_line(helper) == "", what="the helper has ended")
    assert checked(small, full_archive=True)["status"] == "completed", "no lock is left"


def test_a_check_is_resumed_after_the_service_was_killed_in_the_middle(small: Shelf) -> None:
    job, helper = start_and_hold(small)
    small.installed.process.kill()
    os.kill(helper, signal.SIGCONT)
    wait_until(lambda: command_line(helper) == "", what="the helper ends with the service")
    small.installed.restart()

    ended = end_of(small, job)

    assert (ended["status"], ended["attempt"]) == ("completed", 1)
    assert (ended["result"]["read_by"], ended["result"]["files_proven"]) == ("chunks", 4)
    log = log_of(small, ended)
    assert len(log) == len(set(log)), "no line is doubled"


def test_a_repository_of_an_ssh_machine_is_checked_by_chunks_on_that_machine(
    by_chunks: Installed, tmp_path: Path
) -> None:
    with sshd(tmp_path / "machine") as machine:
        connection = machine.connection(by_chunks.client, "machine of checks", engine_path=str(ENGINES["1.4"]))
        shelf = by_chunks.new_shelf(execution_target="ssh", ssh_connection_id=connection, index_mode="off")
        (shelf.source / "large").write_bytes(random.Random(3).randbytes(9_000_000))
        shelf.make("series-2026-02-01")

        ended = checked(shelf, full_archive=True)

        assert ended["result"]["read_by"] == "chunks", log_of(shelf, ended)
        assert ended["result"]["files_proven"] == 5
        assert findings(shelf, ended) == findings(shelf, by_engine(shelf, full_archive=True))
        flip_a_byte(shelf)
        assert checked(shelf, full_archive=True)["error_key"] == "engine.damaged"
        assert by_chunks.client.delete(shelf.url).status_code == 204


def test_a_repository_on_a_server_is_checked_by_chunks_through_borg_serve(by_chunks: Installed, tmp_path: Path) -> None:
    with sshd(tmp_path / "server") as machine:
        connection = machine.connection(by_chunks.client, "server of checks", engine_path=str(ENGINES["1.4"]))
        shelf = by_chunks.new_shelf(repository_type="ssh", ssh_connection_id=connection, index_mode="off")
        assert shelf.repository["path"].startswith("ssh://")
        (shelf.source / "large").write_bytes(random.Random(4).randbytes(9_000_000))
        backup = shelf.client.wait_for_end(shelf.client.start_backup(shelf.repository))
        assert backup["status"] == "completed"

        ended = checked(shelf, full_archive=True)

        assert ended["result"]["read_by"] == "chunks", log_of(shelf, ended)
        assert findings(shelf, ended) == findings(shelf, by_engine(shelf, full_archive=True))
        assert by_chunks.client.delete(shelf.url).status_code == 204
