"""The far side of a run, as it is copied to a machine, driven over pipes in place of a connection."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backup_engine import shim
from backup_engine.far import remote_run, run
from tests.support.processes import command_line
from tests.support.service import wait_until

OLDER_PYTHON = next(map(str, Path.home().glob(".pyenv/versions/3.9*/bin/python3.9")), sys.executable)
LONG_AGO = 1.0


class Connection:
    """One connection to the far side, which sends it the request."""

    def __init__(self, program: Path, run_name: str, script: str) -> None:
        self._process = subprocess.Popen(
            [OLDER_PYTHON, "-I", "-S", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        self._output, self._input = self._process.stdout, self._process.stdin
        assert self._output.read(len(remote_run.MARK)) == remote_run.MARK
        assert self.frame() == (b"h", b"")
        command = {"argv": ["/bin/sh", "-c", script], "environment": {"PATH": os.environ["PATH"]}, "secret_names": []}
        request = {"run": run_name, "command": command, "secrets": {}, "piped": False, "err": 0, "out": 0}
        self.send(json.dumps({**request, "must_exist": False, "silence_seconds": 60}))

    def send(self, line: str) -> None:
        self._input.write(line.encode() + b"\n")
        self._input.flush()

    def frame(self) -> tuple[bytes, bytes]:
        letter, size = remote_run.FRAME.unpack(self._output.read(remote_run.FRAME.size))
        return letter, self._output.read(size)

    def end(self) -> dict[str, Any]:
        """Read everything, and return how the engine ended."""
        while True:
            letter, content = self.frame()
            if letter == b"x":
                end: dict[str, Any] = json.loads(content)
                return end

    def cut(self) -> None:
        self._input.close()
        self._output.close()
        self._process.wait(20)


class FarSide:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connections: list[Connection] = []
        (folder / "version").mkdir()
        for name, text in run.sources().items():
            (folder / "version" / name).write_text(text)

    def connect(self, run_name: str, script: str) -> Connection:
        self._connections.append(Connection(self._folder / "version" / "remote_run.py", run_name, script))
        return self._connections[-1]

    def run_folder(self, run_name: str) -> Path:
        return self._folder / "runs" / run_name

    def age(self, run_name: str) -> None:
        os.utime(self.run_folder(run_name), (LONG_AGO, LONG_AGO))

    def close(self) -> None:
        for connection in self._connections:
            connection.cut()


@pytest.fixture
def far_side(tmp_path: Path) -> Iterator[FarSide]:
    side = FarSide(tmp_path)
    yield side
    side.close()


def counting(folder: Path) -> str:
    return f"echo run >>{folder}/count"


def runs_of(folder: Path) -> int:
    return len((folder / "count").read_text().split())


def test_an_old_run_that_is_asked_for_again_is_followed(far_side: FarSide, tmp_path: Path) -> None:
    first = far_side.connect("a", counting(tmp_path))
    assert first.end()["state"] == "exited"
    first.cut()
    far_side.age("a")

    assert far_side.connect("a", counting(tmp_path)).end()["state"] == "exited"
    assert runs_of(tmp_path) == 1


def test_a_run_that_was_forgotten_counts_as_interrupted(far_side: FarSide, tmp_path: Path) -> None:
    first = far_side.connect("a", counting(tmp_path))
    first.end()
    first.cut()
    far_side.age("a")
    far_side.connect("b", "true").end()
    assert not far_side.run_folder("a").exists()

    for _ in range(2):
        again = far_side.connect("a", counting(tmp_path))
        assert again.end()["state"] == "interrupted"
        again.send("DONE")
        again.cut()
    assert runs_of(tmp_path) == 1


def test_a_run_that_is_being_followed_is_not_forgotten(far_side: FarSide, tmp_path: Path) -> None:
    first = far_side.connect("a", counting(tmp_path))
    first.end()
    first.cut()
    far_side.age("a")
    follower = far_side.connect("a", counting(tmp_path))
    follower.end()
    far_side.connect("b", "true").end()

    assert far_side.run_folder("a").exists()


def test_a_forgotten_run_that_never_started_can_be_started(far_side: FarSide, tmp_path: Path) -> None:
    far_side.run_folder("a").mkdir(parents=True)
    far_side.age("a")
    far_side.connect("b", "true").end()
    assert not far_side.run_folder("a").exists()

    assert far_side.connect("a", counting(tmp_path)).end()["state"] == "exited"


def test_a_cancel_overtakes_output_that_waits_for_the_connection(far_side: FarSide, tmp_path: Path) -> None:
    trap = f"trap 'touch {tmp_path}/stopped; exit 1' TERM"
    connection = far_side.connect(
        "a", f"{trap}; head -c 8000000 /dev/zero; touch {tmp_path}/written; while :; do sleep 0.05; done"
    )
    wait_until((tmp_path / "written").exists, what="the engine has written its output")
    connection.send("TERM")

    wait_until((tmp_path / "stopped").exists, 10, what="the engine was stopped")
    assert connection.end()["record"]["code"] == 1


@pytest.fixture
def stranger() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def ended_run(folder: Path, pid: int, start_time: str | None) -> remote_run.Run:
    (folder / "engine.json").write_text(json.dumps({"pid": pid, "start_time": start_time}))
    return remote_run.Run(str(folder))


def test_a_run_that_is_over_signals_nobody(tmp_path: Path, stranger: "subprocess.Popen[bytes]") -> None:
    run = ended_run(tmp_path, stranger.pid, shim.process_start_time(stranger.pid))

    assert run._signal(b"KILL"), "the word has been dealt with"
    with pytest.raises(subprocess.TimeoutExpired):
        stranger.wait(0.2)


def test_a_process_that_got_the_number_of_an_ended_engine_is_not_signalled(
    tmp_path: Path, stranger: "subprocess.Popen[bytes]"
) -> None:
    run = ended_run(tmp_path, stranger.pid, "1")
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        assert run._signal(b"KILL"), "the word has been dealt with"
    with pytest.raises(subprocess.TimeoutExpired):
        stranger.wait(0.2)


def test_what_an_ended_engine_left_in_its_group_is_signalled(tmp_path: Path) -> None:
    engine = subprocess.Popen(
        ["sh", "-c", "sleep 60 >/dev/null & echo $!"], start_new_session=True, stdout=subprocess.PIPE
    )
    left = int(engine.communicate()[0])
    run = ended_run(tmp_path, engine.pid, "1")
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        assert run._signal(b"KILL")
    wait_until(lambda: not command_line(left), what="the process was stopped")
