"""Chunks that are asked for in runs of their own, as agents are: the same index, and a self-test from one answer."""

import io
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from backup_engine.chunks import commands
from backup_engine.command import Command
from backup_engine.detect import EngineUnsupported, identified
from backup_engine.environment import EngineEnvironment
from backup_engine.interface import engine_for
from backup_engine.outcome import Outcome
from backup_engine.requests import InvalidRequest, ReadChunksRequest, RepositoryLocation, TryChunksRequest
from holdfast.archives.called_chunks import Answer, CalledChunks, tried
from holdfast.archives.engine_refused import EngineRefused
from holdfast.archives.history.errors import ArchiveGone, ChunkRouteFailed, SelfTestFailed
from holdfast.archives.history.index import HistoryIndex
from holdfast.archives.history.sqlite import SqliteStore
from tests.real.history.engine import PASSPHRASE, RealRepository
from tests.support.engines import ENGINES

PROGRAM = identified(str(ENGINES["1.4"]), "1.4.5")
GOOD, FAILED = Outcome("completed", None, None), Outcome("failed", "engine.failed", "it failed")


@dataclass
class Ran:
    stdout: Path
    outcome: Outcome


class Work:
    """Runs each command at once, as an agent would, in place of an operation's steps."""

    def __init__(self, folder: Path, location: RepositoryLocation) -> None:
        self.folder = folder
        self.location = location
        self.context = self
        self.names: list[str] = []
        self.engine = engine_for(PROGRAM, EngineEnvironment(str(folder / "base"), "tests@localhost"))

    def read_chunks(self, location: RepositoryLocation, request: ReadChunksRequest) -> Command:
        return commands.read_command(self.engine, location, request)

    def try_chunks(self, _location: RepositoryLocation, _request: TryChunksRequest) -> Command:
        return commands.trial_command(PROGRAM)

    def step(self, name: str, command: Command, *, quiet: bool) -> Ran:
        assert quiet
        self.names.append(name)
        output = self.folder / f"{name}-{len(self.names)}"
        environment = {**command.environment, "BORG_PASSPHRASE": PASSPHRASE}
        environment.pop("BORG_PASSPHRASE_FD", None)
        with output.open("wb") as file:
            done = subprocess.run(command.argv, env=environment, stdin=subprocess.DEVNULL, stdout=file, check=False)
        return Ran(output, GOOD if done.returncode == 0 else FAILED)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> RealRepository:
    made = RealRepository(ENGINES["1.4"], tmp_path_factory.mktemp("engine")).init()
    for number in range(30):
        (made.tree / f"file-{number}").write_text(f"content {number}")
    made.create("one")
    (made.tree / "file-3").write_text("other content")
    made.create("two")
    return made


@pytest.fixture
def work(repository: RealRepository, tmp_path: Path) -> Work:
    return Work(tmp_path, RepositoryLocation(repository.location, PASSPHRASE, relocated_ok=True))


def called(work: Any) -> CalledChunks:
    return CalledChunks(work, work, 1, [])


def test_an_index_made_by_calls_is_the_one_made_by_a_helper(repository: RealRepository, work: Work) -> None:
    here, there = (HistoryIndex(SqliteStore.create(work.folder / f"{name}.db")) for name in ("here", "there"))
    source = called(work)
    with repository.chunks() as near:
        for name in ("one", "two"):
            archive = repository.ids[name]
            here.ingest_chunks(archive, near, series="series")
            assert there.ingest_chunks(archive, source, series="series").route == "chunks"
            mine, other = (
                [entry._replace(content=bool(entry.content)) for entry in index.entries(archive)]
                for index in (there, here)
            )
            assert mine == other
    found = there.file(repository.ids["two"], b"tree/file-3")
    assert found is not None
    assert found.chunks
    assert len(set(work.names)) == len(work.names), "two questions never share an answer"
    with pytest.raises(ArchiveGone):
        source.chunk_ids("00" * 32)
    here.close()
    there.close()


@pytest.mark.campaign
def test_the_self_test_of_an_agent_passes_with_a_real_engine(work: Any) -> None:
    tried(work, work, 1, [])()


def test_a_self_test_that_does_not_come_off_says_why(work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "try_chunks", lambda *_: Command(("/bin/echo", "no frames")))
    with pytest.raises(SelfTestFailed, match="garbled"):
        tried(work, work, 1, [])()


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


def test_the_largest_question_is_one_argument(work: Work) -> None:
    command = commands.read_command(work.engine, work.location, ReadChunksRequest(ids=("00" * 32,) * commands.MOST_IDS))
    assert max(map(len, command.argv)) < 128 * 1024


def test_an_engine_without_a_python_cannot_be_asked(tmp_path: Path) -> None:
    program = tmp_path / "borg"
    program.write_bytes(b"\x7fELF")
    with pytest.raises(EngineUnsupported, match="standalone"):
        commands.trial_command(identified(str(program), "1.4.5"))


def framed(letter: bytes, content: bytes) -> bytes:
    return letter + len(content).to_bytes(8, "big") + content


@pytest.mark.parametrize(
    ("said", "outcome", "error"),
    [
        (b"", GOOD, ChunkRouteFailed),
        (b"", FAILED, ChunkRouteFailed),
        (b"", Outcome("failed", "engine.unreachable", "the agent is away"), EngineRefused),
        (b"I" + (1 << 40).to_bytes(8, "big"), GOOD, ChunkRouteFailed),
        (framed(b"C", b"x"), GOOD, ChunkRouteFailed),
        (framed(b"I", b"x" * 32)[:-1], GOOD, ChunkRouteFailed),
        (framed(b"E", json.dumps({"kind": "LookupError", "message": "gone"}).encode()), FAILED, ArchiveGone),
        (framed(b"E", b"[" * 60_000), GOOD, ChunkRouteFailed),
    ],
)
def test_an_agent_that_sends_something_else_makes_nothing_grow(
    said: bytes, outcome: Outcome, error: type[Exception]
) -> None:
    with pytest.raises(error):
        Answer(io.BytesIO(said), outcome).frame(b"I", 1000)
