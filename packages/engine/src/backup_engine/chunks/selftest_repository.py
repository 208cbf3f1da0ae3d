"""A small repository for testing the chunk route, created by the engine itself on the machine where the route runs.

The program is self-contained: on another machine its text runs under the engine's own Python, like the helper, with the
same frames. The first line on standard input is the request, the answer is one frame. Then the program waits for the
end of its input and removes everything it created. With `--once HELPER REQUEST` it does not wait; it reads both
archives with the helper and passes on the answers.
"""

import base64
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_FRAME = struct.Struct(">cQ")
_COMMAND_SECONDS = 120
_KEPT_SECONDS = 600
_MANY_FILES = 500  # with long names, so that their items fill several metadata chunks
_MESSAGE_CHARACTERS = 400


class RepositoryFailed(Exception):
    """The engine cannot create or list the repository."""


def made(folder: Path, spec: Any) -> Any:
    """Create the repository in an empty folder.

    Return the ids of its archives, their listings and the contents of files.
    """
    engine = _Engine(folder, spec)
    tree = folder / "tree"
    plant(tree)
    engine.run("make")
    engine.run("back_up", archive="first")
    change(tree)
    engine.run("back_up", archive="second")
    files = (path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    return {
        "repository": str(folder / "repository"),
        "environment": engine.environment,
        "ids": dict(line.split() for line in engine.run("archive_ids").decode().splitlines()),
        "listings": {archive: _text(engine.run("listing", archive=archive)) for archive in ("first", "second")},
        "contents": {_text(b"tree/" + os.fsencode(path.relative_to(tree))): _text(path.read_bytes()) for path in files},
    }


class _Engine:
    def __init__(self, folder: Path, spec: Any) -> None:
        self._folder = folder
        self._spec = spec
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BORG_", "PYTHON"))}
        self.environment = {**kept, **spec["environment"], "BORG_BASE_DIR": str(folder / "base")}

    def run(self, what: str, archive: str = "") -> bytes:
        argv = [os.path.expanduser(self._spec["program"]), *self._spec["commands"][what]]  # noqa: PTH111 - plain text
        argv = [
            word.replace("@repository", str(self._folder / "repository")).replace("@archive", archive) for word in argv
        ]
        done = subprocess.run(
            argv,
            env=self.environment,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()[-_MESSAGE_CHARACTERS:]
            raise RepositoryFailed(f"the engine's {argv[1]} ended with code {done.returncode}: {said}")
        return done.stdout


def plant(tree: Path) -> None:
    """Create one of each kind of entry that an archive can contain and a user can create."""
    odd = tree / "odd"
    odd.mkdir(parents=True)
    for name in (b"plain", b"caf\xe9", b"new\nline", b"tab\t'\"\\", "日本語".encode()):
        (odd / os.fsdecode(name)).write_bytes(b"content of " + name)
    (odd / "empty").touch()
    os.utime(odd / "empty", ns=(0, 4_102_444_800_123_456_789))
    os.utime(odd / "plain", ns=(0, 1_577_836_800_123_456_500))
    (odd / "plain").chmod(0o4750)
    os.link(odd / "plain", odd / "second-name")
    (odd / "link").symlink_to(os.fsdecode(b"caf\xe9"))
    os.mkfifo(odd / "fifo")
    many = tree / "many"
    many.mkdir()
    for number in range(_MANY_FILES):
        (many / f"{'long-name-' * 18}{number:04}").write_bytes(b"%d" % number)


def change(tree: Path) -> None:
    touched = tree / "many" / f"{'long-name-' * 18}{_MANY_FILES // 2:04}"
    before = touched.stat()
    touched.write_bytes(b"x" * before.st_size)
    (tree / "many" / f"{'long-name-' * 18}{_MANY_FILES // 3:04}").unlink()
    (tree / "odd" / "new").touch()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def main() -> int:
    signal.signal(signal.SIGTERM, _stop)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-selftest-"))
    is_once = sys.argv[1:2] == ["--once"]
    try:
        try:
            result = made(folder, json.loads(sys.argv[3] if is_once else sys.stdin.buffer.readline()))
            _answer(b"J", result)
        except Exception as error:  # noqa: BLE001 - report any error to the other side
            _answer(b"E", {"kind": type(error).__name__, "message": str(error)[:1000]})
            return 2
        if is_once:
            return _read(sys.argv[2], result)
        select.select([0], [], [], _KEPT_SECONDS)  # nothing else is sent: this waits for the end of the input
    finally:
        shutil.rmtree(str(folder), ignore_errors=True)
    return 0


def _read(helper: str, result: Any) -> int:
    opening = {"repository": result["repository"], "niceness": 0, "lock_wait": 10}
    asks = [{"op": "whole", "archive": result["ids"][archive]} for archive in ("first", "second")]
    argv = [sys.executable, helper, "--once", *map(json.dumps, (opening, *asks))]
    done = subprocess.run(argv, env=result["environment"], timeout=_COMMAND_SECONDS, check=False)
    return done.returncode


def _answer(letter: bytes, value: Any) -> None:
    content = json.dumps(value).encode()
    sys.stdout.buffer.write(_FRAME.pack(letter, len(content)) + content)
    sys.stdout.buffer.flush()


def _stop(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
