"""Warm readers: how many there are, how long they live, and what is retried."""

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.downloads.engine_output import ClientGone
from holdfast.history.chunks.file_chunks import Part
from holdfast.history.errors import ChunkRouteFailed, ContentMoved, GaveWay
from holdfast.kit.change_signal import ChangeSignal
from holdfast.kit.supervisor import Supervisor
from holdfast.machines.models import SshConnection
from holdfast.reading import readers as module
from holdfast.reading.contents import AT_ONCE_BYTES, AT_ONCE_CHUNKS, parts_of
from holdfast.reading.readers import MOST, LaneTaken, NotReadable, Readers
from holdfast.repositories.models import Repository
from holdfast.runner.lane_ticket import LaneTicket

PART = Part(b"c" * 32, 10, 0, 10)


class ScriptedReader:
    """Returns or raises the items of its list one by one, and returns zeros after its end."""

    def __init__(self, answers: Sequence[bytes | Exception] = ()) -> None:
        self.answers = list(answers)
        self.is_usable = True
        self.has_ended = False

    def read(self, parts: Sequence[Part]) -> bytes:
        if self.has_ended:
            raise ChunkRouteFailed("it has ended")
        answer = self.answers.pop(0) if self.answers else bytes(sum(part.end - part.start for part in parts))
        if isinstance(answer, Exception):
            self.is_usable = isinstance(answer, ContentMoved) or "damaged" in str(answer)
            raise answer
        return answer

    def end(self) -> None:
        self.is_usable = False
        self.has_ended = True


class Stored:
    """The store's side: the repositories that exist."""

    def __init__(self) -> None:
        self.rows: list[Repository] = []
        self.work = ChangeSignal()
        self.connection = SshConnection(username="a", host="b", port=22, key_id=1, host_key="k", engine_path=None)

    def get(self, _kind: type[SshConnection], _number: int) -> SshConnection:
        return self.connection

    def reading(self) -> "Stored":
        return self

    def __enter__(self) -> "Stored":
        return self

    def __exit__(self, *_error: object) -> None: ...

    def scalars(self, _statement: Any) -> "Stored":
        return self

    def all(self) -> list[Repository]:
        return self.rows


class Pool:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.stored = Stored()
        self.opened: list[ScriptedReader] = []
        self.next: list[ScriptedReader | Exception] = []
        self.while_opening: Callable[[], None] = lambda: None
        anything: Any = None
        stored: Any = self.stored
        self.readers = Readers(anything, anything, stored, Supervisor(), anything)
        monkeypatch.setattr(self.readers, "_opened", self._open)

    def _open(self, _repository: Repository, _ticket: LaneTicket) -> ScriptedReader:
        self.while_opening()
        reader = self.next.pop(0) if self.next else ScriptedReader()
        if isinstance(reader, Exception):
            raise reader
        self.opened.append(reader)
        return reader

    def repository(self) -> Repository:
        name = uuid.uuid4().hex
        (self.folder / name).mkdir()
        (self.folder / name / "config").write_text("[repository]")
        made = Repository(
            id=len(self.stored.rows) + 1,
            uuid=name,
            path=str(self.folder / name),
            execution_target="local",
            engine_version=1,
            engine_id="e" * 64,
        )
        self.stored.rows.append(made)
        return made

    def read(self, repository: Repository, gone: threading.Event | None = None) -> bytes:
        return self.readers.read(repository, [PART], gone or threading.Event())

    @property
    def alive(self) -> int:
        return sum(not reader.has_ended for reader in self.opened)


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    made = Pool(tmp_path, monkeypatch)
    yield made
    made.readers.close()
    assert made.alive == 0


def test_one_reader_serves_a_repository_until_it_has_been_idle_too_long(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = pool.repository()
    for _ in range(3):
        assert pool.read(repository) == bytes(10)
    pool.readers.tidy()
    assert (len(pool.opened), pool.alive) == (1, 1)
    monkeypatch.setattr(module, "IDLE_SECONDS", -1.0)
    pool.readers.tidy()
    assert pool.alive == 0


def test_there_are_never_more_than_four_readers_and_the_longest_idle_one_gives_way(pool: Pool) -> None:
    repositories = [pool.repository() for _ in range(MOST + 2)]
    for repository in repositories:
        pool.read(repository)
        assert pool.alive <= MOST
    assert [reader.has_ended for reader in pool.opened] == [True, True, False, False, False, False]


def test_a_read_is_left_to_the_engine_while_all_readers_are_busy(pool: Pool) -> None:
    held = [pool.readers._lent(pool.repository(), LaneTicket(0.0)) for _ in range(MOST)]
    for lent in held:
        lent.__enter__()
    with pytest.raises(NotReadable, match="busy"):
        pool.read(pool.repository())
    for lent in held:
        lent.__exit__(None, None, None)
    assert pool.read(pool.stored.rows[-1]) == bytes(10)


def test_a_download_that_has_begun_waits_while_all_readers_are_busy(pool: Pool) -> None:
    held = [pool.readers._lent(pool.repository(), LaneTicket(0.0)) for _ in range(MOST)]
    for lent in held:
        lent.__enter__()
    gives_back = threading.Timer(0.3, held[0].__exit__, (None, None, None))
    gives_back.start()

    assert pool.readers.read(pool.repository(), [PART], threading.Event(), has_begun=True) == bytes(10)

    gives_back.join()
    for lent in held[1:]:
        lent.__exit__(None, None, None)


@pytest.mark.parametrize(
    "change",
    [
        lambda stored, repository: stored.rows.remove(repository),
        lambda _stored, repository: setattr(repository, "passphrase", "another"),
        lambda _stored, repository: setattr(repository, "engine_id", "f" * 64),
        lambda _stored, repository: setattr(repository, "path", repository.path + "/"),
    ],
)
def test_the_reader_of_a_removed_or_changed_repository_is_ended(
    pool: Pool, change: Callable[[Stored, Repository], None]
) -> None:
    repository = pool.repository()
    pool.read(repository)
    change(pool.stored, repository)
    pool.readers.tidy()
    assert pool.alive == 0


def test_another_repository_at_the_same_path_gets_another_reader_at_the_next_read(pool: Pool) -> None:
    repository = pool.repository()
    pool.read(repository)
    config = Path(repository.path) / "config"
    config.unlink()
    config.write_text("[repository]\nid = another")
    pool.read(repository)
    assert [reader.has_ended for reader in pool.opened] == [True, False]
    config.unlink()
    with pytest.raises(NotReadable):
        pool.read(repository)


def test_a_moved_chunk_is_looked_up_again_but_not_indefinitely(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = pool.repository()
    pool.next = [ScriptedReader([ContentMoved("moved"), ContentMoved("moved"), b"0123456789"])]
    assert pool.read(repository) == b"0123456789"
    monkeypatch.setattr(module, "MOVED_SECONDS", -1.0)
    pool.opened[0].answers = [ContentMoved("moved")]
    with pytest.raises(NotReadable, match="moved"):
        pool.read(repository)
    assert pool.alive == 1, "nothing is wrong with the reader"


def test_a_moved_chunk_is_not_looked_up_again_after_the_client_has_gone(pool: Pool) -> None:
    gone = threading.Event()
    gone.set()
    pool.next = [ScriptedReader([ContentMoved("moved")] * 5)]
    with pytest.raises(ClientGone):
        pool.read(pool.repository(), gone)


def test_a_reader_that_ended_is_replaced_once_and_a_damaged_chunk_is_not_retried(pool: Pool) -> None:
    repository = pool.repository()
    pool.next = [ScriptedReader([ChunkRouteFailed("it ended")]), ScriptedReader([b"0123456789"])]
    assert pool.read(repository) == b"0123456789"
    assert pool.alive == 1
    pool.opened[-1].answers = [ChunkRouteFailed("it ended")]
    pool.next = [ScriptedReader([ChunkRouteFailed("it ended again")])]
    with pytest.raises(NotReadable, match="again"):
        pool.read(repository)
    pool.next = [ScriptedReader([ChunkRouteFailed("a chunk is damaged")])]
    with pytest.raises(NotReadable, match="damaged"):
        pool.read(repository)
    assert pool.alive == 1


def test_a_reader_that_fails_to_start_frees_its_slot(pool: Pool) -> None:
    repository = pool.repository()
    pool.next = [ChunkRouteFailed("wrong passphrase")]
    with pytest.raises(NotReadable, match="passphrase"):
        pool.read(repository)
    assert pool.readers._slots == {}
    assert pool.read(repository) == bytes(10)


def test_forgetting_a_repository_while_its_reader_starts_leaves_no_reader_behind(pool: Pool) -> None:
    repository = pool.repository()
    pool.while_opening = lambda: pool.readers.end(repository.uuid)
    assert pool.read(repository) == bytes(10)
    assert (len(pool.opened), pool.alive) == (1, 0)


@pytest.mark.parametrize(
    ("field", "value"),
    [("execution_target", "agent"), ("path", "sftp://a@b/c"), ("engine_version", 3), ("rclone_remote_id", 1)],
)
def test_readers_do_not_serve_agents_sftp_paths_unknown_engines_or_rclone_remotes(
    pool: Pool, field: str, value: object
) -> None:
    repository = pool.repository()
    assert Readers.can_serve(repository)
    setattr(repository, field, value)
    assert not Readers.can_serve(repository)


def test_readers_serve_repositories_on_a_server_if_the_services_own_engine_1_reads_them(pool: Pool) -> None:
    repository = pool.repository()
    repository.path = "ssh://a@b/c"
    assert Readers.can_serve(repository)
    for field, value in (("engine_version", 2), ("execution_target", "ssh")):
        before = getattr(repository, field)
        setattr(repository, field, value)
        assert not Readers.can_serve(repository)
        setattr(repository, field, before)


def test_a_changed_ssh_connection_ends_only_the_readers_that_use_it(pool: Pool) -> None:
    mine, other = pool.repository(), pool.repository()
    mine.execution_target, mine.ssh_connection_id = "ssh", 7
    for repository in (mine, other):
        pool.read(repository)
    pool.readers.tidy()
    assert pool.alive == 2
    pool.readers.end_those_of(7)
    assert [reader.has_ended for reader in pool.opened] == [True, False]
    pool.read(mine)
    pool.stored.connection.port = 2222  # by another process, which cannot notify this one
    pool.readers.tidy()
    assert [reader.has_ended for reader in pool.opened] == [True, False, True]


def test_a_download_that_has_begun_waits_while_other_work_holds_the_repository(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = pool.repository()
    pool.next = [ScriptedReader([GaveWay("work waits")]), LaneTaken("a backup runs"), LaneTaken("a backup runs")]
    assert pool.readers.read(repository, [PART], threading.Event(), has_begun=True) == bytes(10)
    pool.opened[-1].answers = [GaveWay("work waits")]
    pool.next = [LaneTaken("a backup runs")]
    with pytest.raises(NotReadable, match="backup"):
        pool.read(repository)
    monkeypatch.setattr(module, "RESUME_SECONDS", -1.0)
    pool.next = [LaneTaken("a backup runs")]
    with pytest.raises(NotReadable, match="backup"):
        pool.readers.read(repository, [PART], threading.Event(), has_begun=True)


def test_parts_cover_exactly_the_requested_bytes_and_groups_are_bounded() -> None:
    import random

    from holdfast.history.chunks.file_chunk import Chunk

    rng = random.Random(4)
    for _ in range(200):
        sizes = [rng.choice([1, 5, 1000, AT_ONCE_BYTES // 3, AT_ONCE_BYTES, 5 * AT_ONCE_BYTES]) for _ in range(9)]
        sizes += [1] * rng.choice([0, 3 * AT_ONCE_CHUNKS])
        chunks = [Chunk(number.to_bytes(32, "big"), size) for number, size in enumerate(sizes)]
        start, end = sorted(rng.randrange(sum(sizes) + 1) for _ in range(2))
        at = start
        for group in parts_of(chunks, start, end):
            assert len(group) == 1 or sum(part.end - part.start for part in group) <= AT_ONCE_BYTES
            assert len(group) <= AT_ONCE_CHUNKS
            for part in group:
                number = int.from_bytes(part.chunk, "big")
                assert sum(sizes[:number]) + part.start == at
                assert 0 <= part.start < part.end <= part.size == sizes[number]
                at += part.end - part.start
        assert at == end or start == end
