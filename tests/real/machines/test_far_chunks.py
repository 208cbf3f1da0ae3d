"""Chunks read on other machines, with a real sshd and real engines: the same bytes, bounded, and never left running."""

import io
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from backup_engine.chunks import commands
from backup_engine.command import Command, Secret
from backup_engine.detect import EngineUnsupported, identified
from backup_engine.environment import EngineEnvironment
from backup_engine.far import helper_proxy, remote_helper
from backup_engine.interface import engine_for
from backup_engine.outcome import Outcome
from backup_engine.requests import InvalidRequest, ReadChunksRequest, RepositoryLocation, TryChunksRequest
from holdfast.archives.agent_chunks import AgentChunks, Answer, self_test_on_agent
from holdfast.archives.repository_not_opened import RepositoryNotOpened
from holdfast.history.chunks import far as far_engines
from holdfast.history.chunks.far import FarEngine
from holdfast.history.chunks.file_chunks import FileChunks, Part
from holdfast.history.chunks.metadata_chunks import EngineChunks
from holdfast.history.chunks.route import Route, RouteChooser
from holdfast.history.entry import Entry
from holdfast.history.errors import (
    ArchiveGone,
    ArchiveTooLarge,
    ChunkRouteFailed,
    ProgramChanged,
    RepositoryReplaced,
    SelfTestFailed,
)
from holdfast.history.index import HistoryIndex
from holdfast.history.sqlite import SqliteStore
from tests.real.history.engine import PASSPHRASE, RealRepository, new_repository, plant
from tests.support.engines import ENGINE_2, ENGINES
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
    """Every file, without the name of its content, which each index derives with its own key."""
    return [entry._replace(content=bool(entry.content)) for entry in index.entries(archive)]


def test_a_machine_sends_the_chunks_of_its_repository(
    repository: RealRepository, far: FarEngine, tmp_path: Path
) -> None:
    loud = replace(far, ssh=("sh", "-c", 'echo "Welcome to this machine"; exec "$@"', "sh", *far.ssh))
    archive = repository.ids["one"]
    here, there = (HistoryIndex(SqliteStore.create(tmp_path / f"{name}.db")) for name in ("here", "there"))
    with repository.chunks() as near, chunks_there(repository, loud) as distant:
        assert len(locks(repository)) == 1
        assert not [line for line in command_lines() if PASSPHRASE in line]
        here.ingest_chunks(archive, near, series="series")
        assert there.ingest_chunks(archive, distant, series="series").route == "chunks"
    assert locks(repository) == []
    assert known(there, archive) == known(here, archive)
    found = there.file(archive, b"tree/a file")
    assert found is not None
    assert found.chunks
    with files_there(repository, far) as files:
        assert (files.repository_id, files.program_there) == (distant.repository_id, distant.program_there)
        parts = [Part(chunk.id, chunk.size, 4, chunk.size) for chunk in found.chunks]
        assert files.read(parts) == b"content"
        with pytest.raises(ChunkRouteFailed):
            files.read([Part(bytes(32), 5, 0, 5)])
        assert files.read(parts) == b"content"
        config = Path(repository.location, "config")
        os.utime(config, ns=(0, config.stat().st_mtime_ns + 1))
        with pytest.raises(RepositoryReplaced):
            files.read(parts)
        assert not files.is_usable
    here.close()
    there.close()


@pytest.mark.campaign
@pytest.mark.skipif(ENGINE_2 is None, reason="needs engine 2")
def test_a_machine_with_engine_2_sends_chunks_that_match_its_listing_and_its_files(
    far: FarEngine, tmp_path: Path
) -> None:
    made = new_repository("2.0", tmp_path)
    plant(made.tree, random.Random(3), files=40)
    (made.tree / "large").write_bytes(random.Random(4).randbytes(3_000_000))
    for name in ("one", "two"):
        (made.tree / "a file").write_text(f"the content in {name}")
        made.create(name)
    there = {"environment": environment(made), "secrets": {"BORG_PASSPHRASE_FD": Secret(PASSPHRASE)}, "major": 2}
    there["far"] = replace(far, program=str(made.program))
    by_chunks, by_listing = (HistoryIndex(SqliteStore.create(tmp_path / f"{way}.db")) for way in ("chunks", "listing"))
    with EngineChunks(made.program, made.location, **there) as chunks:
        for name in ("one", "two"):
            assert by_chunks.ingest_chunks(made.ids[name], chunks, series="series").route == "chunks"
    for name in ("one", "two"):
        made.ingest_listing(by_listing, name)
        assert set(known(by_chunks, made.ids[name])) == set(known(by_listing, made.ids[name]))
    assert by_chunks.damage() == []
    with FileChunks(made.program, made.location, **there) as files:
        for name, content in (("large", (made.tree / "large").read_bytes()), ("a file", b"the content in one")):
            found = by_chunks.file(made.ids["one"], f"tree/{name}".encode())
            assert found is not None
            assert files.read([Part(one.id, one.size, 0, one.size) for one in found.chunks or ()]) == content
    by_chunks.close()
    by_listing.close()


def command_lines() -> list[str]:
    return [json.dumps(process.info["cmdline"]) for process in psutil.process_iter(["cmdline"])]


def test_only_the_tested_program_is_used(repository: RealRepository, far: FarEngine) -> None:
    with pytest.raises(ProgramChanged), chunks_there(repository, replace(far, tested="another one")):
        pytest.fail("opened")
    assert locks(repository) == []


OTHERS = [(ENGINES["1.2"], "1.2.4"), *([(ENGINE_2, "2.0.0b23")] if ENGINE_2 else [])]


@pytest.mark.campaign
@pytest.mark.parametrize(("program", "version"), OTHERS)
def test_the_self_test_passes_on_a_machine_with_another_engine(
    far: FarEngine, tmp_path: Path, program: Path, version: str
) -> None:
    there, chooser = replace(far, program=str(program)), RouteChooser(tmp_path / "verdicts.json")
    assert chooser.known_there(there, version) is None
    decision = chooser.choose_there(there, version)
    assert (decision.route, chooser.known_there(there, version)) == (Route.CHUNKS, decision)
    chooser.forget_there(there)
    assert chooser.known_there(there, version) is None


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("\x7fELF", "without its own Python"),
        (None, "cannot be read"),
        pytest.param("#!/usr/bin/python3\nraise SystemExit(0)\n", "self-test", marks=pytest.mark.campaign),
    ],
)
def test_an_engine_that_cannot_be_read_by_chunks_falls_back_to_its_listing(
    far: FarEngine, tmp_path: Path, program: str | None, says: str
) -> None:
    file = tmp_path / "borg"
    if program is not None:
        file.write_text(program)
        file.chmod(0o755)
    decision = RouteChooser(tmp_path / "verdicts.json").choose_there(replace(far, program=str(file)), "1.4.5")
    assert decision.route is Route.LISTING
    assert says in decision.reason


def test_a_killed_link_leaves_no_process_and_no_lock(repository: RealRepository, far: FarEngine) -> None:
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
        ("frame(b'E', b'{\"kind\": \"' + b'x' * 60000 + b'\", \"message\": \"\"}')", ChunkRouteFailed),
    ],
)
def test_an_oversized_response_from_a_machine_is_refused_with_a_short_error(
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


def test_a_silent_link_ends_the_program_that_it_started(tmp_path: Path) -> None:
    program = tmp_path / "borg"
    program.write_text(f"#!{sys.executable}\n")
    waits = "import sys, time\nprint('begun', flush=True)\nsys.stdin.read()\nprint('ended', flush=True)\n"
    request = {"program": str(program), "texts": [("waits", waits)], "environment": {}, "secrets": {}}
    with subprocess.Popen(
        [sys.executable, "-I", "-S", remote_helper.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as far_side:
        assert far_side.stdin is not None
        assert far_side.stdout is not None
        far_side.stdin.write(helper_proxy.piece(json.dumps({**request, "silence_seconds": 1.0}).encode()))
        far_side.stdin.flush()
        said = far_side.stdout.read()  # to its end, while the input stays open
    assert said.startswith(helper_proxy.MARK)
    assert said.endswith(b"begun\nended\n")


# --- by calls, as agents are queried --------------------------------------------------------------------------------


PROGRAM = identified(str(ENGINES["1.4"]), "1.4.5")
GOOD, FAILED = Outcome("completed", None, None), Outcome("failed", "engine.failed", "it failed")


@dataclass
class Ran:
    stdout: Path
    outcome: Outcome


class Work:
    """Runs each command immediately, as an agent would, in place of an operation's steps."""

    def __init__(self, folder: Path, location: RepositoryLocation) -> None:
        self.folder = folder
        self.location = location
        self.context = self
        self.names: list[str] = []
        self.engine = engine_for(PROGRAM, EngineEnvironment(str(folder / "base"), "tests@localhost"))

    def read_chunks(self, location: RepositoryLocation, request: ReadChunksRequest) -> Command:
        return commands.read_command(self.engine, location, request)

    def try_chunks(self, _location: RepositoryLocation, _request: TryChunksRequest) -> Command:
        return commands.selftest_command(PROGRAM)

    def step(self, name: str, command: Command, *, quiet: bool) -> Ran:
        assert quiet
        self.names.append(name)
        output = self.folder / f"{name}-{len(self.names)}"
        environment = {**command.environment, "BORG_PASSPHRASE": PASSPHRASE}
        environment.pop("BORG_PASSPHRASE_FD", None)
        with output.open("wb") as file:
            done = subprocess.run(command.argv, env=environment, stdin=subprocess.DEVNULL, stdout=file, check=False)
        return Ran(output, GOOD if done.returncode == 0 else FAILED)


@pytest.fixture
def work(repository: RealRepository, tmp_path: Path) -> Work:
    return Work(tmp_path, RepositoryLocation(repository.location, PASSPHRASE, relocated_ok=True))


def called(work: Any) -> AgentChunks:
    return AgentChunks(work, work, 1, [])


def test_an_index_built_by_calls_equals_one_built_by_a_helper(repository: RealRepository, work: Work) -> None:
    here, there = (HistoryIndex(SqliteStore.create(work.folder / f"{name}.db")) for name in ("here", "there"))
    source = called(work)
    with repository.chunks() as near:
        archive = repository.ids["one"]
        here.ingest_chunks(archive, near, series="series")
        assert there.ingest_chunks(archive, source, series="series").route == "chunks"
    assert known(there, archive) == known(here, archive)
    found = there.file(archive, b"tree/a file")
    assert found is not None
    assert found.chunks
    assert len(set(work.names)) == len(work.names), "two questions never share an answer"
    with pytest.raises(ArchiveGone):
        source.chunk_ids("00" * 32)
    here.close()
    there.close()


@pytest.mark.campaign
@pytest.mark.parametrize(("program", "version"), [(ENGINES["1.4"], "1.4.5"), *OTHERS])
def test_the_self_test_of_an_agent_passes_with_a_real_engine(
    work: Any, monkeypatch: pytest.MonkeyPatch, program: Path, version: str
) -> None:
    command = commands.selftest_command(identified(str(program), version))
    monkeypatch.setattr(work, "try_chunks", lambda *_: command)
    self_test_on_agent(work, work, int(version[0]), [])()


def test_a_failed_self_test_reports_why(work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "try_chunks", lambda *_: Command(("/bin/echo", "no frames")))
    with pytest.raises(SelfTestFailed, match="garbled"):
        self_test_on_agent(work, work, 1, [])()


@pytest.mark.parametrize(
    "request_",
    [
        ReadChunksRequest(),
        ReadChunksRequest(archive="../x"),
        ReadChunksRequest(archive="00" * 32, ids=("00" * 32,)),
        ReadChunksRequest(ids=("00" * 31,)),
        ReadChunksRequest(ids=("00" * 32,) * (commands.MOST_IDS + 1)),
    ],
)
def test_a_call_for_anything_but_an_archive_or_some_chunks_is_refused(work: Work, request_: ReadChunksRequest) -> None:
    with pytest.raises(InvalidRequest):
        commands.read_command(work.engine, work.location, request_)


def test_the_largest_request_fits_into_one_argument(work: Work) -> None:
    command = commands.read_command(work.engine, work.location, ReadChunksRequest(ids=("00" * 32,) * commands.MOST_IDS))
    assert max(map(len, command.argv)) < 128 * 1024


def test_a_standalone_engine_without_python_cannot_be_queried(tmp_path: Path) -> None:
    program = tmp_path / "borg"
    program.write_bytes(b"\x7fELF")
    with pytest.raises(EngineUnsupported, match="standalone"):
        commands.selftest_command(identified(str(program), "1.4.5"))


def framed(letter: bytes, content: bytes) -> bytes:
    return letter + len(content).to_bytes(8, "big") + content


@pytest.mark.parametrize(
    ("said", "outcome", "error"),
    [
        (b"", GOOD, ChunkRouteFailed),
        (b"", FAILED, ChunkRouteFailed),
        (b"", Outcome("failed", "engine.unreachable", "the agent is away"), RepositoryNotOpened),
        (b"I" + (1 << 40).to_bytes(8, "big"), GOOD, ChunkRouteFailed),
        (framed(b"C", b"x"), GOOD, ChunkRouteFailed),
        (framed(b"I", b"x" * 32)[:-1], GOOD, ChunkRouteFailed),
        (framed(b"E", json.dumps({"kind": "LookupError", "message": "gone"}).encode()), FAILED, ArchiveGone),
        (framed(b"E", b"[" * 60_000), GOOD, ChunkRouteFailed),
    ],
)
def test_an_incomplete_or_unexpected_response_from_an_agent_is_refused(
    said: bytes, outcome: Outcome, error: type[Exception]
) -> None:
    with pytest.raises(error):
        Answer(io.BytesIO(said), outcome).frame(b"I", 1000)
