"""Hands out an archive's metadata chunks, decrypted. Runs under the engine's own Python, as its own process.

This is the only file that touches the engine's private API, so it is small, stands alone (no import of ours) and is used
only after the self-test has passed with the very program it belongs to. It reads and never writes, under a shared lock.

Requests come as JSON lines on standard input, answers go as frames (one letter, 8 bytes of length, content) to what was
standard output when it started: J a JSON answer, C a chunk, E an error. It ends when its input does.
"""

import json
import os
import signal
import struct
import sys
from pathlib import Path
from typing import IO, Any

PROTOCOL = 1
_FRAME = struct.Struct(">cQ")
_CHUNKS_AT_ONCE = 64


def main() -> int:
    if sys.path and sys.path[0] == str(Path(__file__).parent):
        sys.path.pop(0)  # no file beside this one may be taken for a module of the engine
    output = os.fdopen(os.dup(1), "wb", 256 * 1024)
    os.dup2(2, 1)  # whatever the engine prints must not get between the frames
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGHUP, _stop)
    try:
        serve(json.loads(sys.stdin.readline()), output)
    except BrokenPipeError:
        return 1
    except Exception as error:  # noqa: BLE001 - whatever it is, the other side has to be told
        return complain(output, error)
    return 0


def serve(request: Any, output: IO[bytes]) -> None:
    from borg.logger import setup_logging  # type: ignore[import-not-found]

    os.nice(request["niceness"])
    setup_logging(level="error")

    import borg  # type: ignore[import-not-found]
    from borg.helpers import Manifest  # type: ignore[import-not-found]

    with open_repository(request["repository"], request["lock_wait"]) as repository:
        manifest, key = Manifest.load(repository, (Manifest.Operation.READ,))
        send(
            output,
            b"J",
            {"protocol": PROTOCOL, "version": borg.__version__, "latest_nanoseconds": latest_nanoseconds()},
        )
        output.flush()
        for line in sys.stdin:
            answer(json.loads(line), repository, manifest, key, output)
            output.flush()


def open_repository(location: str, lock_wait: int) -> Any:
    from borg.helpers import Location
    from borg.remote import RemoteRepository  # type: ignore[import-not-found]
    from borg.repository import Repository  # type: ignore[import-not-found]

    place = Location(location)
    if place.proto == "file":
        return Repository(place.path, exclusive=False, lock_wait=lock_wait)
    return RemoteRepository(place, exclusive=False, lock_wait=lock_wait, args=remote_options())


def remote_options() -> Any:
    """What the engine's own command line would have said about the other side, all by default or by environment."""
    import argparse

    return argparse.Namespace(
        rsh=None,
        remote_path=None,
        upload_ratelimit=None,
        upload_buffer=None,
        remote_ratelimit=None,
        remote_buffer=None,
        debug_topics=[],
        umask=0o077,
        storage_quota=None,
    )


def latest_nanoseconds() -> Any:
    from borg.helpers.time import MAX_NS  # type: ignore[import-not-found]

    return MAX_NS


def answer(request: Any, repository: Any, manifest: Any, key: Any, output: IO[bytes]) -> None:
    if request["op"] == "ids":
        send(output, b"J", [chunk.hex() for chunk in item_chunks(request["archive"], repository, manifest, key)])
    elif request["op"] == "get":
        ids = [bytes.fromhex(chunk) for chunk in request["ids"]]
        for start in range(0, len(ids), _CHUNKS_AT_ONCE):
            batch = ids[start : start + _CHUNKS_AT_ONCE]
            for chunk, data in zip(batch, repository.get_many(batch)):  # noqa: B905 - 3.8 has no strict
                send_bytes(output, b"C", key.decrypt(chunk, data))
    else:
        raise ValueError("unknown request")


def item_chunks(archive_id: str, repository: Any, manifest: Any, key: Any) -> Any:
    from borg.archive import Archive  # type: ignore[import-not-found]

    wanted = bytes.fromhex(archive_id)
    names = [name for name in manifest.archives if manifest.archives[name].id == wanted]
    if not names:
        raise LookupError("no archive with this id")
    return Archive(repository, key, manifest, names[0]).metadata.items


def complain(output: IO[bytes], error: Exception) -> int:
    try:
        send(output, b"E", {"kind": type(error).__name__, "message": str(error)})
        output.flush()
    except BrokenPipeError:
        return 1
    return 2


def send(output: IO[bytes], letter: bytes, value: Any) -> None:
    send_bytes(output, letter, json.dumps(value).encode())


def send_bytes(output: IO[bytes], letter: bytes, data: Any) -> None:
    output.write(_FRAME.pack(letter, len(data)))
    output.write(data)


def _stop(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)  # so that the repository is closed and its lock removed


if __name__ == "__main__":
    sys.exit(main())
