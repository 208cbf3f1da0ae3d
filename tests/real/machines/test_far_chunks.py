"""The reader of chunks on an ssh machine, with a real sshd and real engines: the same bytes, bounded and never left behind."""

import json
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from backup_engine.command import Secret
from holdfast.archives.history.chunks import far as far_engines
from holdfast.archives.history.chunks.client import EngineChunks, FileChunks, Part
from holdfast.archives.history.chunks.far import FarEngine
from holdfast.archives.history.chunks.route import Route, RouteChooser
from holdfast.archives.history.entry import Entry
from holdfast.archives.history.errors import ArchiveTooLarge, ChunkRouteFailed, ProgramChanged
from holdfast.archives.history.index import HistoryIndex
from holdfast.archives.history.sqlite import SqliteStore
from tests.real.history.engine import PASSPHRASE, RealRepository, plant
from tests.support.engines import ENGINES
from tests.support.service import wait_until
from tests.support.sshd import Sshd, sshd


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("machine")) as host:
        yield host


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> RealRepository:
    made = RealRepository(ENGINES["1.4"], tmp_path_factory.mktemp("engine")).init()
    plant(made.tree, random.Random(1), files=40)
    (made.tree / "a file").write_bytes(b"its content")
    made.create("one")
    (made.tree / "a file").write_bytes(b"other content")
    made.create("two")
    return made


@pytest.fixture(scope="module")
def far(machine: Sshd, tmp_path_factory: pytest.TempPathFactory) -> FarEngine:
    key = tmp_path_factory.mktemp("keys") / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    machine.authorize(key.with_suffix(".pub").read_text())
    options = ("-oBatchMode=yes", "-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oLogLevel=ERROR")
    ssh = ("ssh", "-F", "none", *options, "-i", str(key), "-T", "-p", str(machine.port))
    return FarEngine((*ssh, f"{machine.username}@{machine.address}"), "/usr/bin/python3", str(ENGINES["1.4"]))


def environment(repository: RealRepository) -> dict[str, str]:
    return {name: value for name, value in repository.environment.items() if name != "BORG_PASSPHRASE"}


def chunks_there(repository: RealRepository, far: FarEngine) -> EngineChunks:
    secrets = {"BORG_PASSPHRASE_FD": Secret(PASSPHRASE)}
    there = environment(repository)
    return EngineChunks(repository.program, repository.location, environment=there, secrets=secrets, far=far)


def files_there(repository: RealRepository, far: FarEngine) -> FileChunks:
    secrets = {"BORG_PASSPHRASE": Secret(PASSPHRASE, "environment")}
    there = environment(repository)
    return FileChunks(repository.program, repository.location, environment=there, secrets=secrets, far=far)


def locks(repository: RealRepository) -> list[str]:
    return [name for name in os.listdir(repository.location) if name.startswith("lock")]


def known(index: HistoryIndex, archive: str) -> list[Entry]:
    """Every file, without the name of its content, which each index makes with a key of its own."""
    return [entry._replace(content=bool(entry.content)) for entry in index.entries(archive)]


def test_a_machine_sends_the_chunks_that_its_repository_has(
    repository: RealRepository, far: FarEngine, tmp_path: Path
) -> None:
    here, there = (HistoryIndex(SqliteStore.create(tmp_path / f"{name}.db")) for name in ("here", "there"))
    with repository.chunks() as near, chunks_there(repository, far) as distant:
        assert locks(repository)
        for name in ("one", "two"):
            for index, chunks in ((here, near), (there, distant)):
                assert index.ingest_chunks(repository.ids[name], chunks, series="series").route == "chunks"
            assert known(there, repository.ids[name]) == known(here, repository.ids[name])
    assert locks(repository) == []
    found = there.file(repository.ids["one"], b"tree/a file")
    assert found is not None
    assert found.chunks
    with files_there(repository, far) as files:
        assert files.repository_id == distant.repository_id
        parts = [Part(chunk.id, chunk.size, 4, chunk.size) for chunk in found.chunks]
        assert files.read(parts) == b"content"
        with pytest.raises(ChunkRouteFailed):
            files.read([Part(bytes(32), 5, 0, 5)])
        assert files.read(parts) == b"content"
    here.close()
    there.close()


def test_only_the_program_that_was_tested_is_used(repository: RealRepository, far: FarEngine, tmp_path: Path) -> None:
    with chunks_there(repository, far) as chunks:
        program = chunks.program_there
    with chunks_there(repository, replace(far, tested=program)) as chunks:
        assert chunks.program_there == program
    copy = tmp_path / "borg"
    copy.write_bytes(repository.program.read_bytes())
    with (
        pytest.raises(ProgramChanged),
        chunks_there(repository, replace(far, program=str(copy), tested=program)),
    ):
        pytest.fail("opened")
    assert locks(repository) == []


@pytest.mark.campaign
def test_the_self_test_passes_on_a_machine_with_the_other_series(far: FarEngine, tmp_path: Path) -> None:
    there, chooser = replace(far, program=str(ENGINES["1.2"])), RouteChooser(tmp_path / "verdicts.json")
    assert chooser.known_there(there, "1.2.4") is None
    decision = chooser.choose_there(there, "1.2.4")
    assert (decision.route, chooser.known_there(there, "1.2.4")) == (Route.CHUNKS, decision)
    chooser.forget_there(there)
    assert chooser.known_there(there, "1.2.4") is None


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("\x7fELF", "without a Python of its own"),
        (None, "cannot be read"),
        ("#!/usr/bin/python3\nraise SystemExit(0)\n", "self-test"),
    ],
)
def test_an_engine_that_cannot_be_read_by_chunks_is_left_to_its_listing(
    far: FarEngine, tmp_path: Path, program: str | None, says: str
) -> None:
    file = tmp_path / "borg"
    if program is not None:
        file.write_text(program)
        file.chmod(0o755)
    decision = RouteChooser(tmp_path / "verdicts.json").choose_there(replace(far, program=str(file)), "1.4.5")
    assert decision.route is Route.LISTING
    assert says in decision.reason


def test_a_link_that_is_killed_leaves_no_process_and_no_lock(repository: RealRepository, far: FarEngine) -> None:
    chunks = chunks_there(repository, far).__enter__()
    assert locks(repository)
    assert chunks._process is not None
    chunks._process.send_signal(signal.SIGKILL)
    wait_until(lambda: locks(repository) == [], what="the machine has noticed that the link is gone")
    with pytest.raises(ChunkRouteFailed):
        chunks.chunk_ids(repository.ids["one"])
    assert not chunks.is_usable
    chunks.__exit__(None, None, None)
    wait_until(lambda: not helpers(repository), what="the helper has ended")


def helpers(repository: RealRepository) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("BORG_BASE_DIR") == repository.environment["BORG_BASE_DIR"]:
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


HOSTILE = """
import json, os, struct, sys
def frame(letter, data): os.write(1, struct.pack(">cQ", letter, len(data)) + data)
sys.stdin.readline()
frame(b"J", json.dumps({"protocol": 3, "version": "1.4.5", "latest_nanoseconds": 5}).encode())
sys.stdin.readline()
"""


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("frame(b'I', bytes(32) * 100)", ArchiveTooLarge),
        ("os.write(1, struct.pack('>cQ', b'I', 1 << 40))", ChunkRouteFailed),
        ("frame(b'E', b'{\"kind\": \"' + b'x' * 60000 + b'\", \"message\": \"\"}')", ChunkRouteFailed),
        ("frame(b'J', b'[' * 60000)", ChunkRouteFailed),
    ],
)
def test_a_machine_that_sends_something_else_makes_nothing_grow(
    repository: RealRepository,
    far: FarEngine,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    answer: str,
    error: type[Exception],
) -> None:
    helper = tmp_path / "helper.py"
    helper.write_text(HOSTILE + answer)
    monkeypatch.setattr(far_engines, "HELPER", helper)
    with chunks_there(repository, far) as chunks, pytest.raises(error) as raised:
        chunks.chunk_ids(repository.ids["one"])
    assert len(str(raised.value)) < 2000


def test_what_the_account_prints_at_login_is_not_taken_for_an_answer(
    repository: RealRepository, far: FarEngine
) -> None:
    loud = replace(far, ssh=("sh", "-c", 'echo "Welcome to this machine"; exec "$@"', "sh", *far.ssh))
    with chunks_there(repository, loud) as chunks:
        assert chunks.chunk_ids(repository.ids["one"])


def test_no_secret_stands_on_a_command_line(repository: RealRepository, far: FarEngine) -> None:
    with chunks_there(repository, far):
        lines = [json.dumps(process.info["cmdline"]) for process in psutil.process_iter(["cmdline"])]
    assert not [line for line in lines if PASSPHRASE in line]
