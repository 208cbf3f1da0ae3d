"""Read the chunks of an agent's repository: each request is a separate call, and each response a file of frames."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Protocol

from backup_engine.chunks.commands import MOST_IDS
from backup_engine.command import LARGEST_STREAM, Command
from backup_engine.outcome import Outcome as EngineOutcome
from backup_engine.requests import ReadChunksRequest, RepositoryLocation, TryChunksRequest
from backup_jobs.host import SUCCEEDED, Cancelled
from holdfast.archives.repository_not_opened import RepositoryNotOpened
from holdfast.history.chunks.frames import (
    ANSWER_BYTES_MOST,
    CHUNK_BYTES_MOST,
    FRAME,
    ID_BYTES,
    IDS_BYTES_MOST,
    NUMBER_BYTES,
    PROTOCOL,
    SELFTEST_BYTES_MOST,
    joined_ids,
    named_error,
)
from holdfast.history.errors import ArchiveTooLarge, ChunkRouteFailed, SelfTestFailed
from holdfast.repositories.work import RepositoryWork


class ChunkCalls(Protocol):
    """An engine on an agent's machine that can be called for chunks."""

    def read_chunks(self, location: RepositoryLocation, request: ReadChunksRequest) -> Command: ...
    def try_chunks(self, location: RepositoryLocation, request: TryChunksRequest) -> Command: ...


class _NoPlaces:
    """Reports the places and stored sizes of chunks as unknown: they are only hints, not worth another call."""

    def segments(self, joined_ids: bytes) -> bytes:
        return bytes(len(joined_ids) // ID_BYTES * NUMBER_BYTES)

    def stored_sizes(self, joined_ids: bytes) -> bytes:
        return self.segments(joined_ids)


class AgentChunks(_NoPlaces):
    """Metadata chunks of a repository that an agent opens. The same limits apply to its responses as to a helper's.

    Raise ChunkRouteFailed if the listing has to be used instead, RepositoryNotOpened if the repository cannot be
    opened, Cancelled.
    """

    is_usable = True

    def __init__(self, work: RepositoryWork, calls: ChunkCalls, major: int, spent: list[Path]) -> None:
        self.major = major
        self.latest_nanoseconds = 0
        self._work = work
        self._calls = calls
        self._spent = spent
        self._left_bytes = LARGEST_STREAM
        self._archive = ""

    def chunk_ids(self, archive: str) -> list[bytes]:
        self._left_bytes = LARGEST_STREAM
        self._archive = archive
        with self._answer(ReadChunksRequest(archive=archive)) as answer:
            return joined_ids(answer.frame(b"I", IDS_BYTES_MOST))

    def chunks(self, ids: Sequence[bytes]) -> Generator[bytes]:
        for start in range(0, len(ids), MOST_IDS):
            batch = ids[start : start + MOST_IDS]
            with self._answer(ReadChunksRequest(ids=tuple(one.hex() for one in batch))) as answer:
                for _ in batch:
                    yield answer.frame(b"C", CHUNK_BYTES_MOST)

    def _answer(self, request: ReadChunksRequest) -> Answer:
        wanted = hashlib.sha256(json.dumps([self._archive, request.archive, request.ids]).encode()).hexdigest()[:24]
        most = IDS_BYTES_MOST if request.archive else len(request.ids) * (FRAME.size + CHUNK_BYTES_MOST)
        command = replace(
            self._calls.read_chunks(self._work.location, request), most_output=most + 2 * ANSWER_BYTES_MOST
        )
        answer = answer_of(self._work, f"chunks-{wanted}", command, self._spent)
        try:
            self._left_bytes -= answer.size
            if self._left_bytes < 0:
                raise ArchiveTooLarge("the archive's metadata is larger than any listing may be")
            latest = answer.hello().get("latest_nanoseconds")
            if not isinstance(latest, int):
                raise ChunkRouteFailed("the agent does not say which times its engine knows")
        except BaseException:
            answer.close()
            raise
        self.latest_nanoseconds = latest
        return answer


def answer_of(work: RepositoryWork, name: str, command: Command, spent: list[Path]) -> Answer:
    """Call the agent, or return to a call that was already made."""
    step = work.context.step(name, command, quiet=True)
    spent.append(step.stdout)
    if step.outcome.status == "cancelled":
        raise Cancelled
    return Answer(step.stdout.open("rb"), step.outcome)


class Answer:
    """The frames of one response, each with a size limit. Use as a context manager."""

    def __init__(self, file: IO[bytes], outcome: EngineOutcome) -> None:
        self.size = file.seek(0, os.SEEK_END)
        file.seek(0)
        self._file = file
        self._outcome = outcome

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def hello(self) -> dict[str, Any]:
        told = self.json(ANSWER_BYTES_MOST)
        if told.get("protocol") != PROTOCOL:
            raise ChunkRouteFailed("the agent's helper speaks another protocol")
        return told

    def json(self, most: int) -> dict[str, Any]:
        try:
            told = json.loads(self.frame(b"J", most))
        except (ValueError, RecursionError) as error:
            raise ChunkRouteFailed("the agent answered no JSON") from error
        if not isinstance(told, dict):
            raise ChunkRouteFailed("the agent answered something else than an object")
        return told

    def frame(self, wanted: bytes, most: int) -> bytes:
        head = self._file.read(FRAME.size)
        if len(head) < FRAME.size:
            raise self._ended_early()
        letter, size = FRAME.unpack(head)
        if letter not in (wanted, b"E") or size > (ANSWER_BYTES_MOST if letter == b"E" else most):
            raise ChunkRouteFailed("the agent's answer is garbled")
        data = self._file.read(size)
        if len(data) < size:
            raise self._ended_early()
        if letter == b"E":
            raise named_error(data)
        return data

    def _ended_early(self) -> Exception:
        if self._outcome.status in SUCCEEDED or self._outcome.error_key == "engine.failed":
            return ChunkRouteFailed(self._outcome.message or "the agent's answer ends early")
        return RepositoryNotOpened(self._outcome)


def self_test_on_agent(work: RepositoryWork, calls: ChunkCalls, major: int, spent: list[Path]) -> Callable[[], None]:
    """Return a function that runs the self-test on an agent's machine. The function raises SelfTestFailed."""

    def test() -> None:
        from holdfast.history.chunks.selftest import compare_recorded

        command = replace(calls.try_chunks(work.location, TryChunksRequest()), most_output=4 * SELFTEST_BYTES_MOST)
        try:
            with answer_of(work, "chunks-self-test", command, spent) as answer:
                made = answer.json(SELFTEST_BYTES_MOST)
                latest = answer.hello().get("latest_nanoseconds")
                recorded = Recorded(major, latest if isinstance(latest, int) else 0, answer)
                compare_recorded(made, recorded, major)
        except ChunkRouteFailed as failure:
            raise SelfTestFailed(str(failure)) from failure

    return test


class Recorded(_NoPlaces):
    """The chunks of several archives, sent by an agent one archive after another, each complete."""

    def __init__(self, major: int, latest_nanoseconds: int, answer: Answer) -> None:
        self.major = major
        self.latest_nanoseconds = latest_nanoseconds
        self._answer = answer
        self._known: dict[bytes, bytes] = {}

    def chunk_ids(self, archive: str) -> list[bytes]:
        del archive  # the archives arrive in the order in which they are requested
        ids = joined_ids(self._answer.frame(b"I", ANSWER_BYTES_MOST))
        for one in ids:
            self._known[one] = self._answer.frame(b"C", ANSWER_BYTES_MOST * 16)
        return ids

    def chunks(self, ids: Sequence[bytes]) -> Generator[bytes]:
        yield from self._found(ids)

    def _found(self, ids: Sequence[bytes]) -> Iterator[bytes]:
        return (self._known[one] for one in ids)
