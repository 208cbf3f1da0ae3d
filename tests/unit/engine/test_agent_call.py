"""The near side of a call: what it passes on, and how it treats broken links."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backup_engine.far import agent_call
from backup_engine.far.agent_call import END, ERRORS, HEAD, HERE, OUTPUT
from tests.support.service import PATIENCE, wait_until


def frame(letter: bytes, content: bytes = b"") -> bytes:
    return HEAD.pack(letter, len(content)) + content


def end(**how: Any) -> bytes:
    return frame(END, json.dumps(how).encode())


class Called:
    def __init__(self, folder: Path, method: str, patience: float = PATIENCE) -> None:
        self.folder = folder
        self.answered: set[Path] = set()
        request = {"agent_machine_id": 7, "repository_id": 3, "folder": str(folder), "patience_seconds": patience}
        file = folder / "request.far"
        file.write_text(json.dumps({**request, "method": method, "request": {"archive": "a"}}))
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", agent_call.__file__, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def waiting(self) -> list[Path]:
        return list(self.folder.glob("7-*.json"))

    @contextlib.contextmanager
    def linked(self) -> Iterator[tuple[Path, socket.socket]]:
        """Connect as an agent does."""
        call = wait_until(
            lambda: next(iter(set(self.waiting()) - self.answered), None), pause=0.01, what="a call waits"
        )
        self.answered.add(call)
        assert json.loads(call.read_text())["repository_id"] == 3
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.connect(str(call.with_suffix(".sock")))
            yield call, link

    def answer(self, *frames: bytes) -> None:
        """Send what an agent sends, then close the link."""
        with self.linked() as (_, link):
            link.sendall(b"".join(frames))

    def ended(self) -> tuple[int, bytes, bytes]:
        output, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, output, errors


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = Path("/tmp") / f"called-{tmp_path_factory.mktemp('c').name}-{time.monotonic_ns()}"
    folder.mkdir(mode=0o700)
    yield folder
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


def test_the_call_passes_on_the_engines_output_and_exit_code(folder: Path) -> None:
    run = Called(folder, "list_files")
    run.answer(frame(HERE), frame(OUTPUT, b"one\n"), frame(ERRORS, b"hm\n"), frame(OUTPUT, b"two\n"), end(code=1))

    assert run.ended() == (1, b"one\ntwo\n", b"hm\n")
    assert run.waiting() == []


@pytest.mark.parametrize(("how", "code"), [({"code": 0}, 0), ({"code": 13}, 13), ({"code": None, "signal": 15}, 143)])
def test_every_kind_of_end_becomes_an_exit_code(folder: Path, how: dict[str, Any], code: int) -> None:
    run = Called(folder, "list_files")
    run.answer(end(**how))

    assert run.ended()[0] == code


@pytest.mark.parametrize(
    "told",
    [b"", b"nonsense", b"[]", b'{"code": "x"}', b'{"code": 256}', b'{"code": -1}', b'{"code": 1e999}', b"[" * 60_000],
)
def test_an_unreadable_end_counts_as_killed_and_never_as_a_success(folder: Path, told: bytes) -> None:
    run = Called(folder, "compact")
    run.answer(frame(HERE), frame(END, told))

    code, _, errors = run.ended()
    assert code == -signal.SIGKILL
    assert b"Traceback" not in errors


def test_a_link_that_breaks_after_engine_output_leaves_the_end_unknown(folder: Path) -> None:
    run = Called(folder, "list_files")
    run.answer(frame(HERE), frame(OUTPUT, b"one\n"))

    assert run.ended()[0] == -signal.SIGKILL


def test_a_read_call_whose_link_breaks_before_any_output_is_offered_again(folder: Path) -> None:
    run = Called(folder, "list_files")
    run.answer(frame(HERE))
    run.answer(frame(OUTPUT, b"all"), end(code=0))

    assert run.ended() == (0, b"all", b"")


@pytest.mark.parametrize("method", agent_call.ONCE)
def test_a_call_that_changes_a_repository_is_never_offered_twice(folder: Path, method: str) -> None:
    run = Called(folder, method)
    run.answer(frame(HERE))

    assert run.ended()[0] == -signal.SIGKILL
    assert run.waiting() == []


def test_the_wait_for_an_agent_that_never_connects_is_limited(folder: Path) -> None:
    code, output, errors = Called(folder, "list_files", patience=0.2).ended()

    assert (code, output) == (agent_call.UNREACHABLE, b"")
    assert b"did not pick up the call" in errors


def test_a_stop_withdraws_the_waiting_call(folder: Path) -> None:
    run = Called(folder, "list_files")
    wait_until(run.waiting, pause=0.01, what="the call waits")
    run.process.terminate()

    assert run.ended()[0] == 128 + signal.SIGTERM
    assert run.waiting() == []


def begin(call: Path) -> None:
    """Allow the engine to start, as the service does when the agent asks."""
    call.with_suffix(".wanted").rename(call.with_suffix(".begun"))


def test_a_stopped_change_that_was_not_confirmed_ends_at_once_and_can_no_longer_be(folder: Path) -> None:
    run = Called(folder, "delete_archive")
    with run.linked() as (call, link):
        link.sendall(frame(HERE))
        wait_until(lambda: not run.waiting(), pause=0.01, what="the link is accepted")
        assert call.with_suffix(".wanted").exists()
        run.process.terminate()

        assert run.ended()[0] == 128 + signal.SIGTERM
    assert list(folder.glob("7-*")) == []


def test_a_stopped_change_that_was_confirmed_is_followed_to_its_end(folder: Path) -> None:
    run = Called(folder, "delete_archive")
    with run.linked() as (call, link):
        link.sendall(frame(HERE))
        begin(call)
        run.process.terminate()
        wait_until(lambda: not call.with_suffix(".begun").exists(), pause=0.01, what="the permission is withdrawn")
        link.sendall(end(code=0))

        assert run.ended()[0] == 0


@pytest.mark.parametrize("method", ["delete_archive", "list_files"])
def test_a_confirmed_change_whose_link_never_arrives_may_have_been_made(folder: Path, method: str) -> None:
    run = Called(folder, method, patience=1.0)
    begin(wait_until(lambda: next(iter(run.waiting()), None), pause=0.01, what="a call waits"))

    assert run.ended()[0] == (agent_call.UNREACHABLE if method == "list_files" else -signal.SIGKILL)
    assert list(folder.glob("7-*")) == []
