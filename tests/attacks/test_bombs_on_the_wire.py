"""No length, message or line that comes from elsewhere makes the receiving side exceed its memory limits."""

import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable
from http.client import HTTPMessage
from pathlib import Path

import pytest

from backup_agent.client import NoAnswer, _understood
from backup_agent.restore_stream import LinkCut as StreamCut
from backup_agent.restore_stream import RestoreStream
from backup_engine import bounded
from backup_engine.far import agent_call, run
from backup_engine.far.unpack import BoundedTar, BrokenOff, Unpacker, opened
from backup_engine.results import GarbledOutput, parse_archives
from backup_protocol.frames import SURVEY, frame
from holdfast.downloads.engine_output import IncompleteOutput as DownloadCut
from holdfast.downloads.from_tar import TarEntries
from holdfast.errors import Unprocessable
from holdfast.execution import ssh
from holdfast.mirror.rclone import Rclone
from holdfast.mirror.rclone_log import _record
from holdfast.operations.logs import LogWriter
from holdfast.runner.line_reader import LONGEST_LINE, LineReader
from holdfast.settings import Settings
from tests.support.service import PATIENCE

MIB = 1 << 20
DEEP = b"[" * 100_000


def peak(work: Callable[[], object]) -> int:
    """The peak memory that Python took for the work."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# --- frames ----------------------------------------------------------------------------------------------------------


def test_a_small_frame_of_an_agent_does_not_exhaust_memory_when_unpacked() -> None:
    bomb = zlib.compress(bytes(64 * MIB))

    def unpack() -> None:
        with pytest.raises(agent_call.LinkCut):
            for _ in agent_call.unpacked(bomb):
                pass

    assert peak(unpack) < 4 * MIB


@pytest.mark.parametrize("content", [b"", b"no zlib", zlib.compress(b"some words")[:-6]])
def test_an_incomplete_packed_frame_cuts_the_link(content: bytes) -> None:
    with pytest.raises(agent_call.LinkCut):
        list(agent_call.unpacked(content))


def test_a_legitimate_packed_frame_is_unpacked_completely() -> None:
    content = os.urandom(3 * MIB) + bytes(MIB)
    assert b"".join(agent_call.unpacked(zlib.compress(content, 1))) == content


@pytest.mark.parametrize(
    ("letter", "size"),
    [(agent_call.END, agent_call.LARGEST_END + 1), (agent_call.OUTPUT, agent_call.LARGEST_FRAME + 1), (b"?", 1 << 20)],
)
def test_a_frame_that_announces_an_excessive_length_is_not_awaited(letter: bytes, size: int) -> None:
    here, there = socket.socketpair()
    with here, there:
        here.settimeout(PATIENCE)
        there.sendall(agent_call.HEAD.pack(letter, size))
        with pytest.raises(agent_call.LinkCut):
            agent_call.CalledRun({"method": "info"})._follow(here)


LIAR = f"""
import os, struct, sys
os.write(1, {run.MARK!r} + struct.pack(">cQ", b"h", 0))
sys.stdin.readline()
os.write(1, %s)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    "lie",
    [
        'struct.pack(">cQ", b"o", 1 << 62)',
        'struct.pack(">cQ", b"?", 1)',
        'struct.pack(">cQ", b"x", 100000) + b"[" * 100000',
        'struct.pack(">cQ", b"x", 20) + b\'{"state": "exited"  }\'',
    ],
)
def test_an_ssh_machine_that_sends_invalid_frames_ends_the_run_with_a_clear_error(tmp_path: Path, lie: str) -> None:
    request = tmp_path / "request.far"
    words = {"ssh": [sys.executable, "-c", LIAR % lie], "python": "python3", "piped": False, "patience_seconds": 3600}
    request.write_text(json.dumps({**words, "run": "one", "command": {}}))
    reading, writing = os.pipe()
    os.write(writing, b"{}")
    os.close(writing)
    ended = subprocess.run(
        [sys.executable, "-I", "-S", run.__file__, str(request)],
        env={"HOLDFAST_FAR_SECRETS": str(reading), "PATH": os.defpath},
        pass_fds=(reading,),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    os.close(reading)
    assert (ended.returncode, ended.stderr.decode().strip()) == (2, run.UNREADABLE)


def test_only_the_end_of_ssh_error_output_is_kept(tmp_path: Path) -> None:
    with (tmp_path / "said").open("w+b") as said:
        said.write(b"x" * MIB + b"Connection refused")
        told = run.last_of(said)
    assert told.endswith(b"Connection refused")
    assert len(told) == run.LONGEST_COMPLAINT


# --- JSON ------------------------------------------------------------------------------------------------------------


def test_an_agent_refuses_json_that_is_nested_too_deeply() -> None:
    with pytest.raises(NoAnswer):
        _understood(200, HTTPMessage(), DEEP)
    with pytest.raises(StreamCut):
        RestoreStream(io.BytesIO(frame(SURVEY, DEEP))).survey()


def test_the_service_refuses_json_that_is_nested_too_deeply() -> None:
    assert _record(DEEP.decode()) is None
    with pytest.raises(GarbledOutput):
        parse_archives(DEEP)


# --- lines -----------------------------------------------------------------------------------------------------------


def test_an_endless_line_is_passed_on_in_pieces(tmp_path: Path) -> None:
    spooled = tmp_path / "err"
    spooled.write_bytes(b"x" * (5 * LONGEST_LINE) + b"\nlast\n")
    heard: list[int] = []

    def on_line(line: bytes) -> list[str]:
        heard.append(len(line))
        return []

    writer = LogWriter(tmp_path / "log", 0, most_bytes=MIB)
    assert peak(lambda: LineReader(spooled, on_line, writer).drain(to_the_end=True)) < 8 * LONGEST_LINE
    writer.close()
    assert heard == [LONGEST_LINE] * 5 + [0, 4]


# --- headers of tar streams ------------------------------------------------------------------------------------------


class Hostile(io.RawIOBase):
    """A tar stream that begins as given and continues for a long time."""

    def __init__(self, beginning: bytes, filling: bytes, size: int = 32 * MIB) -> None:
        self._given = beginning
        self._filling = filling
        self._left = size

    def read(self, size: int = -1, /) -> bytes:
        if not self._given:
            assert size > 0
            self._given = self._filling * (size // len(self._filling) + 1) if self._left > 0 else b""
            self._left -= len(self._given)
        part, self._given = self._given[:size], self._given[size:]
        return part


def header(kind: bytes, size: int, *, name: str = "one") -> bytes:
    entry = tarfile.TarInfo(name)
    entry.type, entry.size = kind, size
    return entry.tobuf(tarfile.GNU_FORMAT)


def pax(records: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    return header(kind, len(records)) + records + bytes(-len(records) % 512)


SPARSE_1_0 = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"
BOMBS = {
    "a long name": (header(tarfile.GNUTYPE_LONGNAME, 1 << 33), b"n" * 512),
    "a long link": (header(tarfile.GNUTYPE_LONGLINK, 1 << 33), b"n" * 512),
    "attributes": (header(tarfile.XHDTYPE, 1 << 33), b"n" * 512),
    "attributes of Solaris": (header(tarfile.SOLARIS_XHDTYPE, 1 << 33), b"n" * 512),
    "a chain of headers": (b"", pax(b"".join(b"15 k%06d=vvv\n" % number for number in range(5_000)))),
    "headers for all": (b"", pax(b"13 comment=x\n", tarfile.XGLTYPE)),
    "a map of holes": (
        pax(SPARSE_1_0) + header(tarfile.REGTYPE, 1 << 33) + b"999999999\n" + b"1\n" * 251,
        b"1\n" * 256,
    ),
    "a sparse file": (b"", header(tarfile.GNUTYPE_SPARSE, 0)),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_headers_of_a_tar_stream_do_not_fill_the_memory_of_the_unpacker(tmp_path: Path, bomb: str) -> None:
    tree = opened(os.fsencode(tmp_path))

    def unpack() -> None:
        with pytest.raises(BrokenOff):
            Unpacker(tree, lambda *_: None).unpack(Hostile(*BOMBS[bomb]))

    assert peak(unpack) < 16 * MIB
    os.close(tree)


@pytest.mark.parametrize("bomb", BOMBS)
def test_headers_of_a_tar_stream_do_not_fill_the_memory_of_a_download(bomb: str) -> None:
    def read() -> None:
        with pytest.raises((DownloadCut, tarfile.TarError)):
            TarEntries(Hostile(*BOMBS[bomb])).next()  # type: ignore[arg-type]

    assert peak(read) < 16 * MIB


def test_legitimate_long_names_links_and_attributes_are_accepted() -> None:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        entry = tarfile.TarInfo("n/" * 1500 + "n")
        entry.type, entry.linkname = tarfile.SYMTYPE, "l/" * 1500
        entry.pax_headers = {"SCHILY.xattr.user.one": "v" * 65_536, "mtime": "1.5"}
        tar.addfile(entry)
    found = BoundedTar.open(fileobj=io.BytesIO(written.getvalue()), mode="r|").next()
    assert found is not None
    assert (found.name, found.linkname.rstrip("/")) == (entry.name, entry.linkname.rstrip("/"))
    assert found.pax_headers["SCHILY.xattr.user.one"] == "v" * 65_536


def test_attributes_of_folders_are_kept_up_to_a_limit(tmp_path: Path) -> None:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for number in range(40):
            entry = tarfile.TarInfo(f"folder-{number}")
            entry.type, entry.mode = tarfile.DIRTYPE, 0o750
            entry.pax_headers = {"SCHILY.xattr.user.one": "v" * 500_000}
            tar.addfile(entry)
    tree = opened(os.fsencode(tmp_path))
    told: list[str] = []
    written.seek(0)
    unpacker = Unpacker(tree, lambda _path, why: told.append(why))
    assert peak(lambda: unpacker.unpack(written)) < 16 * MIB
    os.close(tree)
    assert sum("too many extended attributes" in why for why in told) > 20
    assert len(list(tmp_path.iterdir())) == 40


# --- output of programs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [1, 2])
def test_a_program_that_never_stops_writing_is_ended(stream: int) -> None:
    def ask() -> None:
        with pytest.raises(bounded.TooMuchOutput):
            bounded.run(("/bin/sh", "-c", f"exec cat /dev/zero >&{stream}"), b"", PATIENCE, {"PATH": os.defpath})

    assert peak(ask) < 3 * bounded.LARGEST_ANSWER


def test_the_output_of_an_ssh_machine_that_never_stops_writing_is_refused() -> None:
    answer = ssh._run(("/bin/sh", "-c", "exec cat /dev/zero"), "", PATIENCE)
    assert (answer.code, answer.output, answer.errors) == (ssh.FAILED, "", ssh.TOO_MUCH)


def test_the_output_of_an_rclone_that_never_stops_writing_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "rclone"
    program.write_text("#!/bin/sh\nexec cat /dev/zero\n")
    program.chmod(0o700)
    with pytest.raises(Unprocessable) as refused:
        Rclone(Settings(data_dir=tmp_path, rclone=str(program))).providers()
    assert "answer is too long" in str(refused.value)


def test_long_input_and_output_pass_completely() -> None:
    question = os.urandom(3 * MIB)
    done = bounded.run(("/bin/sh", "-c", "cat; echo all >&2; exit 3"), question, PATIENCE, {"PATH": os.defpath})
    assert (done.returncode, done.stdout, done.stderr) == (3, question, b"all\n")


def test_the_output_of_a_program_that_does_not_read_its_input_is_returned() -> None:
    done = bounded.run(("/bin/sh", "-c", "echo no"), bytes(3 * MIB), PATIENCE, {"PATH": os.defpath})
    assert done.stdout == b"no\n"


def test_a_program_that_takes_too_long_is_ended() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        bounded.run(("/bin/sh", "-c", "exec sleep 600"), b"", 0.1, {"PATH": os.defpath})
