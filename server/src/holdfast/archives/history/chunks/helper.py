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

PROTOCOL = 1
_FRAME = struct.Struct(">cQ")
_CHUNKS_AT_ONCE = 64


def main():
    sys.path[0:1] = [place for place in sys.path[0:1] if place != os.path.dirname(os.path.abspath(__file__))]
    output = os.fdopen(os.dup(1), "wb", 256 * 1024)
    os.dup2(2, 1)  # whatever the engine prints must not get between the frames
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGHUP, _stop)
    request = json.loads(sys.stdin.readline())
    try:
        serve(request, output)
    except BrokenPipeError:
        return 1
    except Exception as error:
        try:
            send(output, b"E", describe(error))
            output.flush()
        except BrokenPipeError:
            pass
        return 2
    return 0


def serve(request, output):
    from borg.logger import setup_logging

    setup_logging(level="error")

    import borg
    from borg.helpers import Manifest

    with open_repository(request["repository"], request["lock_wait"]) as repository:
        manifest, key = Manifest.load(repository, (Manifest.Operation.READ,))
        send(output, b"J", {"protocol": PROTOCOL, "version": borg.__version__, "latest_nanoseconds": latest_nanoseconds()})
        output.flush()
        for line in sys.stdin:
            answer(json.loads(line), repository, manifest, key, output)
            output.flush()


def open_repository(location, lock_wait):
    from borg.helpers import Location
    from borg.remote import RemoteRepository
    from borg.repository import Repository

    place = Location(location)
    if place.proto == "file":
        return Repository(place.path, exclusive=False, lock_wait=lock_wait)
    return RemoteRepository(place, exclusive=False, lock_wait=lock_wait, args=remote_options())


def remote_options():
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


def latest_nanoseconds():
    from borg.helpers import time

    return time.MAX_NS


def answer(request, repository, manifest, key, output):
    if request["op"] == "ids":
        send(output, b"J", [chunk.hex() for chunk in item_chunks(request["archive"], repository, manifest, key)])
    elif request["op"] == "get":
        ids = [bytes.fromhex(chunk) for chunk in request["ids"]]
        for start in range(0, len(ids), _CHUNKS_AT_ONCE):
            batch = ids[start : start + _CHUNKS_AT_ONCE]
            for chunk, data in zip(batch, repository.get_many(batch)):
                send_bytes(output, b"C", key.decrypt(chunk, data))
    else:
        raise ValueError("unknown request")


def item_chunks(archive_id, repository, manifest, key):
    from borg.archive import Archive

    wanted = bytes.fromhex(archive_id)
    names = [name for name in manifest.archives if manifest.archives[name].id == wanted]
    if not names:
        raise LookupError("no archive with this id")
    return Archive(repository, key, manifest, names[0]).metadata.items


def describe(error):
    return {"kind": type(error).__name__, "message": str(error)}


def send(output, letter, value):
    send_bytes(output, letter, json.dumps(value).encode())


def send_bytes(output, letter, data):
    output.write(_FRAME.pack(letter, len(data)))
    output.write(data)


def _stop(number, frame):
    raise SystemExit(128 + number)  # so that the repository is closed and its lock removed


if __name__ == "__main__":
    sys.exit(main())
