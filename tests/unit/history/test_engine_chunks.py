"""The service's side of the helper protocol, against helpers that misbehave; and the choice of the route."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.history.chunks import helper_process
from holdfast.history.chunks.metadata_chunks import EngineChunks
from holdfast.history.chunks.program import interpreter_of
from holdfast.history.chunks.route import Route, RouteChooser
from holdfast.history.errors import ArchiveGone, ChunkRouteFailed, SelfTestFailed

PRELUDE = """
import json, os, struct, sys, time
def frame(letter, data): os.write(1, struct.pack(">cQ", letter, len(data)) + data)
def hello(**more):
    sys.stdin.readline()
    frame(b"J", json.dumps({"protocol": 3, "version": "1.4.5", "latest_nanoseconds": 5, **more}).encode())
"""

Start = Callable[[str], EngineChunks]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    def with_helper(body: str) -> EngineChunks:
        helper = tmp_path / "helper.py"
        helper.write_text(PRELUDE + body)
        monkeypatch.setattr(helper_process, "HELPER", helper)
        program = tmp_path / "borg"
        program.write_text(f"#!{sys.executable}\n")
        return EngineChunks(program, "/repository", environment={}, lock_wait=1, niceness=0)

    return with_helper


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("sys.exit('no module named borg')", "no module named borg"),
        ("hello(protocol=4)", "another protocol"),
        ("hello(version=None)", "which engine"),
        ("sys.stdin.readline(); os.write(1, b'Warning: something')", "garbled|ended early"),
        ("sys.stdin.readline(); os.write(1, b'J' + b'\\xff' * 8)", "garbled"),
        ("sys.stdin.readline(); frame(b'J', b'{')", "no JSON"),
        ("sys.stdin.readline(); frame(b'E', b'{}')", "did not say why"),
        ('sys.stdin.readline(); frame(b\'E\', b\'{"kind": "LockTimeout", "message": "busy"}\')', "LockTimeout: busy"),
    ],
)
def test_a_helper_that_does_not_start_fails_the_route(start: Start, body: str, says: str) -> None:
    with pytest.raises(ChunkRouteFailed, match=says), start(body):
        pytest.fail("the helper came up")


@pytest.mark.parametrize(
    "answer",
    [
        "frame(b'J', b'[1]')",
        "frame(b'I', b'abcd')",
        "frame(b'I', b'x' * 33)",
        "frame(b'C', b'')",
        "sys.exit(1)",
        "os.write(1, struct.pack('>cQ', b'I', 1 << 30))",
    ],
)
def test_a_response_that_is_not_a_list_of_chunk_ids_fails_the_route(start: Start, answer: str) -> None:
    with start(f"hello(); sys.stdin.readline(); {answer}") as chunks, pytest.raises(ChunkRouteFailed):
        chunks.chunk_ids("00")


def test_an_archive_that_is_gone_raises_its_own_error(start: Start) -> None:
    body = 'hello(); sys.stdin.readline(); frame(b\'E\', b\'{"kind": "LookupError", "message": "no archive"}\')'
    with start(body) as chunks, pytest.raises(ArchiveGone, match="no archive"):
        chunks.chunk_ids("00")


SERVE = """
hello()
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "ids": frame(b"I", bytes(32) + b"\\1" * 32)
    for one in request.get("ids", []): frame(b"C", bytes.fromhex(one) * 40_000)
"""


def test_chunks_arrive_in_the_requested_order(start: Start) -> None:
    with start(SERVE) as chunks:
        ids = [bytes([number]) * 32 for number in range(100)]
        assert [data[:1] for data in chunks.chunks(ids)] == [one[:1] for one in ids]
        assert chunks.chunk_ids("00") == [b"\0" * 32, b"\1" * 32]
        assert list(chunks.chunks([])) == []


def test_a_partly_read_response_does_not_disturb_the_next_request(start: Start) -> None:
    with start(SERVE) as chunks:
        unwanted = chunks.chunks([b"\7" * 32] * 50)
        next(unwanted)
        unwanted.close()
        assert chunks.chunk_ids("00") == [b"\0" * 32, b"\1" * 32]
        assert [data[:1] for data in chunks.chunks([b"\3" * 32])] == [b"\3"]


def test_closing_in_the_middle_of_a_response_does_not_wait_for_the_rest(start: Start) -> None:
    endless = "hello(); sys.stdin.readline()\nfor _ in range(10_000): frame(b'C', b'x' * 1000); time.sleep(0.05)"
    before = time.monotonic()
    with start(endless) as chunks:
        next(chunks.chunks([b"\7" * 32] * 10_000))
    assert time.monotonic() - before < 100  # the rest would take 500


def test_a_helper_that_dies_between_chunks_fails_the_route(start: Start) -> None:
    with start("hello(); sys.stdin.readline(); frame(b'C', b'one'); sys.exit('out of memory')") as chunks:
        answer = chunks.chunks([b"\7" * 32] * 2)
        assert next(answer) == b"one"
        with pytest.raises(ChunkRouteFailed, match="ended early"):
            next(answer)


def test_a_chunk_larger_than_the_engine_creates_is_refused(start: Start) -> None:
    body = "hello(); sys.stdin.readline(); os.write(1, struct.pack('>cQ', b'C', 1 << 40))"
    with start(body) as chunks, pytest.raises(ChunkRouteFailed, match="garbled"):
        next(chunks.chunks([b"\7" * 32]))


@pytest.mark.parametrize(
    ("head", "python"),
    [
        (b"#!/usr/bin/python3\n", ["/usr/bin/python3"]),
        (b"#!/opt/x/bin/python3.11 -I\n", ["/opt/x/bin/python3.11", "-I"]),
        (b'#!/bin/sh\n\'\'\'exec\' "/very long/bin/python" "$0" "$@"\n', ["/very long/bin/python"]),
        (b"#!/bin/sh\nexec borg.real\n", None),
        (b"#!/bin/bash\n", None),
        (b"\x7fELF\x02\x01", None),
        (b"", None),
        (b"#!\n", None),
    ],
)
def test_the_interpreter_of_a_program_is_read_from_its_first_line(
    tmp_path: Path, head: bytes, python: list[str] | None
) -> None:
    (tmp_path / "borg").write_bytes(head)
    assert interpreter_of(tmp_path / "borg") == python


def test_an_interpreter_named_through_env_is_looked_up_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python9").write_text("")
    (tmp_path / "python9").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "borg").write_text("#!/usr/bin/env python9\n")
    assert interpreter_of(tmp_path / "borg") == [str(tmp_path / "python9")]
    (tmp_path / "borg").write_text("#!/usr/bin/env -S python8\n")
    assert interpreter_of(tmp_path / "borg") is None
    assert interpreter_of(tmp_path / "none") is None


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "borg").write_text(f"#!{sys.executable}\n")
    return tmp_path / "borg"


class SelfTests:
    """Counts self-tests and lets them pass or fail."""

    def __init__(self, failure: str = "") -> None:
        self.failure = failure
        self.count = 0

    def __call__(self, _: Path, _major: int) -> None:
        self.count += 1
        if self.failure:
            raise SelfTestFailed(self.failure)


def test_a_program_is_tested_once_and_again_when_it_changes(tmp_path: Path, program: Path) -> None:
    tests = SelfTests()
    for _ in range(3):
        decision = RouteChooser(tmp_path / "verdicts.json", test=tests).choose(program, "1.4.5")
        assert decision.route is Route.CHUNKS
    assert tests.count == 1
    RouteChooser(tmp_path / "verdicts.json", test=tests).choose(program, "1.4.6")
    program.write_text(program.read_text() + "# upgraded\n")
    RouteChooser(tmp_path / "verdicts.json", test=tests).choose(program, "1.4.6")
    assert tests.count == 3


def test_a_failed_self_test_selects_the_listing_and_reports_why(tmp_path: Path, program: Path) -> None:
    chooser = RouteChooser(tmp_path / "verdicts.json", test=SelfTests("3 files differ"))
    decision = chooser.choose(program, "1.2.4")
    assert (decision.route, "3 files differ" in decision.reason) == (Route.LISTING, True)


def test_a_failed_self_test_is_repeated_after_a_day_and_a_passed_one_never(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = SelfTests("disk full")
    chooser = RouteChooser(tmp_path / "verdicts.json", test=tests)
    chooser.choose(program, "1.4.5")
    chooser.choose(program, "1.4.5")
    assert tests.count == 1
    tests.failure = ""
    later = time.time() + 25 * 3600
    monkeypatch.setattr(time, "time", lambda: later)
    assert chooser.choose(program, "1.4.5").route is Route.CHUNKS
    later += 10**8
    assert chooser.choose(program, "1.4.5").route is Route.CHUNKS
    assert tests.count == 2


@pytest.mark.parametrize("version", ["2.0.0b22", "2.0.0", "1.1.18", "1.5.0", "", "1.4.0b1"])
def test_a_version_that_the_helper_does_not_support_is_not_tested(tmp_path: Path, program: Path, version: str) -> None:
    tests = SelfTests()
    decision = RouteChooser(tmp_path / "verdicts.json", test=tests).choose(program, version)
    assert (decision.route, tests.count) == (Route.LISTING, 0)


def test_a_standalone_program_selects_the_listing(tmp_path: Path) -> None:
    (tmp_path / "borg").write_bytes(b"\x7fELF")
    decision = RouteChooser(tmp_path / "verdicts.json", test=SelfTests()).choose(tmp_path / "borg", "1.4.5")
    assert decision.route is Route.LISTING
    assert "standalone" in decision.reason


def test_a_program_is_tested_again_after_its_verdict_is_damaged_or_forgotten(tmp_path: Path, program: Path) -> None:
    tests = SelfTests()
    (tmp_path / "verdicts.json").write_text('{"x": 1, "y": {"failure": 3}}[')
    chooser = RouteChooser(tmp_path / "verdicts.json", test=tests)
    assert chooser.choose(program, "1.4.5").route is Route.CHUNKS
    chooser.forget()
    chooser.choose(program, "1.4.5")
    assert tests.count == 2


def test_an_agents_engine_is_tested_once_per_version(tmp_path: Path) -> None:
    chooser, tests = RouteChooser(tmp_path / "verdicts.json"), []

    def choose(agent: str, version: str) -> Route:
        return chooser.choose_called(agent, version, lambda: tests.append((agent, version))).route

    for _ in range(2):
        assert choose("1 /usr/bin/borg", "1.4.5") is Route.CHUNKS
    assert choose("1 /usr/bin/borg", "1.4.6") is Route.CHUNKS
    assert choose("2 /usr/bin/borg", "1.4.6") is Route.CHUNKS
    assert choose("2 /usr/bin/borg", "1.5.0") is Route.LISTING
    assert tests == [("1 /usr/bin/borg", "1.4.5"), ("1 /usr/bin/borg", "1.4.6"), ("2 /usr/bin/borg", "1.4.6")]


def test_a_failed_self_test_of_an_agents_engine_selects_the_listing(tmp_path: Path) -> None:
    chooser, tests = RouteChooser(tmp_path / "verdicts.json"), []

    def fail() -> None:
        tests.append(1)
        raise SelfTestFailed("3 files differ")

    for _ in range(2):
        decision = chooser.choose_called("1 /usr/bin/borg", "1.4.5", fail)
        assert (decision.route, "3 files differ" in decision.reason) == (Route.LISTING, True)
    assert tests == [1]
