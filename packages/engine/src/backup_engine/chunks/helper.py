"""Serve decrypted chunks of a repository. Runs as a separate process under the engine's own Python.

This file (for engine 2 together with `helper_2.py`) is the only one that touches the engine's private API. So it is
small, self-contained (it imports nothing of Holdfast) and used only after the self-test has passed with the very engine
program that it runs under. It only reads: metadata of archives under a shared lock, file contents without a lock (see
`Contents`) or, through `borg serve`, with one (see `ServedContents`).

Requests arrive as JSON lines on standard input, some followed by concatenated chunk ids. Answers are frames (one
letter, 8 bytes of length, content) on what was standard output at start: J a JSON answer, I concatenated ids or
numbers, C a chunk, E an error. The process ends when its input ends.

The repository may be hostile. Nothing is unpacked before its size is known, an archive may not unpack to far more than
is stored, and the kernel refuses this process more than `MEMORY_BYTES` beyond the memory that the opened repository
takes.
"""

import io
import json
import lzma
import os
import resource
import select
import signal
import struct
import sys
import time
import zlib
from pathlib import Path
from typing import IO, Any

PROTOCOL = 3
MEMORY_BYTES = 128 * 1024 * 1024
STORED_BYTES_MOST = 8 * 1024 * 1024
ENVELOPE_BYTES_MOST = 64 * 1024  # what encryption and compression may add to an incompressible chunk
CHUNK_BYTES_MOST = 4 * 1024 * 1024  # the engine cuts item metadata into chunks of at most 512 KiB
FILE_CHUNK_BYTES_MOST = 8 * 1024 * 1024  # the engine cuts files into chunks of at most 8 MiB
INDEX_BYTES_MOST = 2 * 1024 * 1024 * 1024  # limit for the repository's own index: about 40 million chunks
FILES_OPEN_SECONDS = 60.0  # an open file keeps disk space that a compaction has freed
OBJECT_BYTES_MOST = 20 * 1024 * 1024  # manifest and archive metadata: the engine's own limit
SAME_CHUNK_MOST = 4  # on average; a real archive repeats one if a folder was given twice
ARCHIVE_BYTES_FREE = 8 * 1024 * 1024
ARCHIVE_RATIO_MOST = 200  # metadata of real trees compresses 3 to 60 times

_FRAME = struct.Struct(">cQ")
_SEGMENT = struct.Struct(">I")
_ID_BYTES = 32
_CHUNKS_AT_ONCE = 32
MESSAGE_CHARACTERS_MOST = 1000
LZ4_BYTES_MOST = 16 * 1024 * 1024


class TooLarge(Exception):
    """Unpacking would take more memory than any real archive needs."""


class Replaced(Exception):
    """A different repository has taken the place of the opened one."""


class LinkLost(Exception):
    """The server or the connection to it is gone: nothing more can be read through this process."""


class Moved(Exception):
    """The chunk is not where the index says, but the repository is being written to: a later try may find it."""


def main(serve: Any) -> int:
    if sys.path and sys.path[0] == str(Path(__file__).parent):
        sys.path.pop(0)  # no file in this folder may be mistaken for a module of the engine
    output = os.fdopen(os.dup(1), "wb", 256 * 1024)
    os.dup2(2, 1)  # the engine's own output must not get between the frames
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGHUP, _stop)
    if sys.argv[1:2] == ["--once"]:  # each argument stands for a line of standard input
        sys.stdin = io.TextIOWrapper(io.BytesIO("".join(f"{line}\n" for line in sys.argv[2:]).encode()))
    try:
        serve(json.loads(sys.stdin.buffer.readline()), output)
    except BrokenPipeError:
        return 1
    except Exception as error:  # noqa: BLE001 - report any error to the other side
        return complain(output, error)
    return 0


def serve(request: Any, output: IO[bytes]) -> None:
    from borg.logger import setup_logging  # type: ignore[import-not-found]

    os.nice(request["niceness"])
    setup_logging(level="error")

    if request.get("reads_files") and request["repository"].startswith("/"):
        serve_files(Contents(request["repository"]), output)
        return
    with open_repository(request["repository"], request["lock_wait"]) as repository:
        if request.get("reads_files"):
            serve_files(ServedContents(repository), output)
        else:
            serve_metadata(Metadata(repository), repository.id, output)


def serve_metadata(metadata: Any, repository_id: Any, output: IO[bytes]) -> None:
    greet(output, latest_nanoseconds=latest_nanoseconds(), repository_id=repository_id.hex())
    budget = Budget()
    for line in sys.stdin.buffer:
        try:
            answer(json.loads(line), metadata, budget, output)
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - only this archive is at fault, others may be fine
            complain(output, error)
        output.flush()


def serve_files(contents: Any, output: IO[bytes]) -> None:
    """Answer requests for parts of chunks, each `[id, size, start, end]`, one request at a time."""
    greet(output, repository_id=contents.repository_id)
    while True:
        # The buffer is empty here: the other side waits for an answer before it sends the next request.
        if not select.select([sys.stdin], [], [], FILES_OPEN_SECONDS)[0]:
            contents.close_files()
            continue
        line = sys.stdin.buffer.readline()
        if not line:
            return
        if contents.is_replaced():
            raise Replaced("another repository is in its place")
        try:
            parts = contents.parts([(bytes.fromhex(chunk), *rest) for chunk, *rest in json.loads(line)["parts"]])
            send_bytes(output, b"C", b"".join(parts))
        except BrokenPipeError:
            raise
        except LinkLost as error:
            complain(output, error)
            return
        except Exception as error:  # noqa: BLE001 - only this chunk is at fault, others may be fine
            complain(output, error)
        output.flush()


def greet(output: IO[bytes], **about: Any) -> None:
    import borg  # type: ignore[import-not-found]

    send(output, b"J", {"protocol": PROTOCOL, "version": borg.__version__, **about})
    output.flush()


def open_repository(location: str, lock_wait: int) -> Any:
    from borg.helpers import Location  # type: ignore[import-not-found]
    from borg.remote import RemoteRepository  # type: ignore[import-not-found]
    from borg.repository import Repository  # type: ignore[import-not-found]

    place = Location(location)
    if place.proto == "file":
        return Repository(place.path, exclusive=False, lock_wait=lock_wait)
    return RemoteRepository(place, exclusive=False, lock_wait=lock_wait, args=remote_options())


def remote_options() -> Any:
    """Options of the remote side that the engine's own command line would set; all are defaults or from the
    environment.
    """
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


def open_manifest(repository: Any) -> Any:
    """Load the manifest under the memory limit; only the repository's own index is read before the limit is set."""
    from borg.crypto.key import key_factory  # type: ignore[import-not-found]
    from borg.helpers import Manifest

    stored = repository.get(Manifest.MANIFEST_ID)
    limit_memory()
    key = key_factory(repository, stored)
    check_size(key, None, stored, OBJECT_BYTES_MOST)
    return Manifest.load(repository, (Manifest.Operation.READ,), key)


def limit_memory() -> None:
    """Make the kernel enforce the memory limit. Without /proc (not on Linux), only the size checks protect."""
    try:
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = taken + MEMORY_BYTES
    if hard == resource.RLIM_INFINITY or hard > wanted:
        resource.setrlimit(resource.RLIMIT_AS, (wanted, wanted))


def latest_nanoseconds() -> Any:
    from borg.helpers.time import MAX_NS  # type: ignore[import-not-found]

    return MAX_NS


def answer(request: Any, metadata: Any, budget: "Budget", output: IO[bytes]) -> None:
    if request["op"] == "ids":
        budget.reset()
        send_bytes(output, b"I", b"".join(real_chunks(metadata.item_chunks(bytes.fromhex(request["archive"])))))
    elif request["op"] == "whole":
        budget.reset()
        ids = real_chunks(metadata.item_chunks(bytes.fromhex(request["archive"])))
        send_bytes(output, b"I", b"".join(ids))
        hand_out(ids, metadata, budget, output)
    elif request["op"] == "get":
        hand_out([bytes.fromhex(chunk) for chunk in request["ids"]], metadata, budget, output)
    elif request["op"] == "segments":
        send_bytes(output, b"I", metadata.segments(sys.stdin.buffer.read(request["count"] * _ID_BYTES)))
    elif request["op"] == "stored":
        send_bytes(output, b"I", metadata.stored_sizes(sys.stdin.buffer.read(request["count"] * _ID_BYTES)))
    elif request["op"] == "prove":
        send(output, b"J", {"proven": sum(1 for _ in metadata.contents(named_chunks(request)))})
    elif request["op"] == "content":
        send_bytes(output, b"C", b"".join(metadata.contents(named_chunks(request))))
    else:
        raise ValueError("unknown request")


def named_chunks(request: Any) -> Any:
    """The requested file chunks, each `(id, size)`."""
    return [(bytes.fromhex(chunk), size) for chunk, size in request["chunks"]]


def real_chunks(chunks: Any) -> Any:
    if len(chunks) > SAME_CHUNK_MOST * len(set(chunks)):
        raise TooLarge("the archive names the same chunks of metadata again and again")
    return chunks


def hand_out(ids: Any, metadata: Any, budget: "Budget", output: IO[bytes]) -> None:
    """Send these chunks. Raise TooLarge if one is too large, or if together they are far larger than what is stored."""
    for start in range(0, len(ids), _CHUNKS_AT_ONCE):
        batch = ids[start : start + _CHUNKS_AT_ONCE]
        for chunk, (stored, plain) in zip(batch, metadata.chunks(batch)):  # noqa: B905 - 3.8 has no strict
            budget.spend(chunk, stored, len(plain))
            send_bytes(output, b"C", plain)


class Metadata:
    """Metadata of the archives in an opened repository, and contents of file chunks for callers that verify them."""

    def __init__(self, repository: Any) -> None:
        self._repository = repository
        self._manifest, self._key = open_manifest(repository)

    def item_chunks(self, wanted: bytes) -> Any:
        """Return the ids of the chunks that contain an archive's items."""
        from borg.archive import Archive  # type: ignore[import-not-found]

        archives = self._manifest.archives
        names = [name for name in archives if archives[name].id == wanted]
        if not names:
            raise LookupError("no archive with this id")
        check_size(self._key, wanted, self._repository.get(wanted), OBJECT_BYTES_MOST)
        return Archive(self._repository, self._key, self._manifest, names[0]).metadata.items

    def chunks(self, batch: Any) -> Any:
        """Yield the stored size and the content of each chunk."""
        for chunk, data in zip(batch, self._repository.get_many(batch)):  # noqa: B905 - 3.8 has no strict
            yield len(data), unpack(self._key, chunk, data, CHUNK_BYTES_MOST)

    def contents(self, wanted: Any) -> Any:
        """Given `(id, size)` of file chunks, yield the authenticated content of each.

        Raise ValueError if a size differs.
        """
        answers = self._repository.get_many([chunk for chunk, _ in wanted])
        for (chunk, size), stored in zip(wanted, answers):  # noqa: B905 - 3.8 has no strict
            yield cut_out(unpack(self._key, chunk, stored, FILE_CHUNK_BYTES_MOST), size, 0, size)

    def segments(self, ids: bytes) -> bytes:
        """Return the location of each chunk: its segment number plus one, or 0 if the repository does not record it."""
        index = getattr(self._repository, "index", None)
        if not index:
            return bytes(len(ids) // _ID_BYTES * _SEGMENT.size)
        places = (index.get(ids[at : at + _ID_BYTES]) for at in range(0, len(ids), _ID_BYTES))
        return b"".join(_SEGMENT.pack(place[0] + 1 if place else 0) for place in places)

    @staticmethod
    def stored_sizes(ids: bytes) -> bytes:
        """Zeros: with engine 1, the items themselves contain the sizes."""
        return bytes(len(ids) // _ID_BYTES * _SEGMENT.size)


class UnlockedChunks:
    """Reads chunks of a repository on this machine without a lock, even while an engine writes to it.

    The index may be out of date at any time: a chunk is then missing, or something else is in its place. The id is a
    hash of the content and is checked after unpacking, so only the right content is ever returned.
    """

    repository_id: Any
    _files_since = 0.0

    def __init__(self, identity: Path) -> None:
        self._identity = identity
        self._identity_status = self._look()

    def is_replaced(self) -> bool:
        return bool(self._look() != self._identity_status)

    def _look(self) -> Any:
        """Identity of the file that contains the repository's id, which is written when a repository is created."""
        status = self._identity.stat()
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size

    def parts(self, wanted: Any) -> Any:
        """Given `(id, size, start, end)` of chunks, return those bytes. Raise Moved if a later try may find a missing
        one.
        """
        return [self._part(*one) for one in wanted]

    def _part(self, chunk: bytes, size: int, start: int, end: int) -> Any:
        if time.monotonic() - self._files_since > FILES_OPEN_SECONDS:
            self.close_files()
        return cut_out(self._plain(chunk, size), size, start, end)

    def close_files(self) -> None:
        self._files_since = time.monotonic()

    def _plain(self, chunk: bytes, size: int) -> Any:
        try:
            return self._unpacked(chunk, size)
        except (TooLarge, MemoryError):
            raise
        except Exception:  # whatever is now where the chunk was
            if not self._may_be_out_of_date():
                raise
        try:
            self._load_index()
            return self._unpacked(chunk, size)
        except (TooLarge, MemoryError):
            raise
        except Exception as error:
            raise Moved(str(error)) from error

    def _unpacked(self, chunk: bytes, size: int) -> Any:
        raise NotImplementedError

    def _may_be_out_of_date(self) -> bool:
        """Whether an engine has written a new index, or is running and may have removed what its next index omits."""
        raise NotImplementedError

    def _load_index(self) -> None:
        raise NotImplementedError


class Contents(UnlockedChunks):
    """File contents of a repository of engine 1, without a lock.

    Uses only the reading parts of the engine's code. The engine's `open_index` removes an index that it cannot read,
    and `get_transaction_id` may replay segments, so the index is loaded here instead.
    """

    def __init__(self, path: str) -> None:
        from borg.crypto.key import key_factory
        from borg.helpers import Manifest
        from borg.repository import Repository

        super().__init__(Path(path) / "config")
        self._repository = Repository(path, lock=False, check_segment_magic=False)
        self._repository.open(path, exclusive=False, lock=False)
        self.repository_id = self._repository.id.hex()
        self._path = Path(path)
        self._index: Any = None
        self._transaction: Any = None
        self._load_index()
        stored = self._stored(Manifest.MANIFEST_ID)
        limit_memory()
        self._key = key_factory(self._repository, stored)

    def close_files(self) -> None:
        files = self._repository.io.fds
        for segment, _ in list(files.items()):
            del files[segment]  # in 1.2, `clear` leaves half of it behind
        super().close_files()

    def _unpacked(self, chunk: bytes, size: int) -> Any:  # noqa: ARG002 - engine 2 needs it
        return unpack(self._key, chunk, self._stored(chunk), FILE_CHUNK_BYTES_MOST)

    def _may_be_out_of_date(self) -> bool:
        try:
            is_known = self._repository.get_index_transaction_id() == self._transaction
        except OSError:  # a file from the listing is gone
            return True
        return not is_known or (self._path / "lock.exclusive").exists()

    def _stored(self, chunk: bytes) -> Any:
        segment, offset = self._index[chunk]
        return self._repository.io.read(segment, offset, chunk)

    def _load_index(self) -> None:
        from borg.crypto.file_integrity import IntegrityCheckedFile  # type: ignore[import-not-found]
        from borg.hashindex import NSIndex  # type: ignore[import-not-found]

        transaction = self._repository.get_index_transaction_id()
        if self._index is not None and transaction == self._transaction:
            return
        if transaction is None:
            raise LookupError("the repository has no index")
        file = self._path / f"index.{transaction}"
        if file.stat().st_size > INDEX_BYTES_MOST:
            raise TooLarge("the repository's index is too large to be kept in memory")
        self._index = self._transaction = None  # two indexes would take twice the memory
        self.close_files()
        expected = self._repository._read_integrity(transaction, b"index")  # noqa: SLF001 - it only reads
        with IntegrityCheckedFile(str(file), write=False, integrity_data=expected) as stream:
            self._index = NSIndex.read(stream)
        self._transaction = transaction


class ServedContents:
    """File contents of a repository on a server, read by `borg serve` there under its shared lock.

    The lock keeps others from writing, so a missing chunk is not looked up again.
    """

    def __init__(self, repository: Any) -> None:
        from borg.crypto.key import key_factory
        from borg.helpers import Manifest

        self.repository_id = repository.id.hex()
        self._repository = repository
        stored = repository.get(Manifest.MANIFEST_ID)
        limit_memory()
        self._key = key_factory(repository, stored)

    def is_replaced(self) -> bool:
        return False

    def close_files(self) -> None:
        """Nothing to close: the files are open on the server."""

    def parts(self, wanted: Any) -> Any:
        """Like `UnlockedChunks.parts`. All chunks are requested at once; each is cut before the next is unpacked."""
        from borg.remote import ConnectionClosed

        try:
            answers = self._repository.get_many([chunk for chunk, *_ in wanted])
            return [
                cut_out(unpack(self._key, chunk, stored, FILE_CHUNK_BYTES_MOST), *rest)
                for (chunk, *rest), stored in zip(wanted, answers)  # noqa: B905 - 3.8 has no strict
            ]
        except (ConnectionClosed, OSError) as error:
            raise LinkLost(str(error)) from error


def cut_out(plain: Any, size: int, start: int, end: int) -> Any:
    if len(plain) != size:
        raise ValueError("a chunk has another size than its archive says")
    return plain[start:end]


class Budget:
    """Limits what the metadata of one archive may unpack to; a chunk that occurs repeatedly counts as stored once."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._seen: Any = set()
        self._stored = self._unpacked = 0

    def spend(self, chunk: bytes, stored: int, unpacked: int) -> None:
        self._stored += 0 if chunk in self._seen else stored
        self._seen.add(chunk)
        self._unpacked += unpacked
        if self._unpacked > ARCHIVE_BYTES_FREE + ARCHIVE_RATIO_MOST * self._stored:
            raise TooLarge("the archive's metadata unpacks to far more than is stored")


# --- unpacking within limits ------------------------------------------------------------------------------------------


def unpack(key: Any, chunk: Any, stored: Any, most: int) -> Any:
    """Unpack a stored chunk and authenticate it. Raise TooLarge if its content exceeds `most` bytes."""
    plain = key.decompress(check_size(key, chunk, stored, most))
    if len(plain) > most:
        raise TooLarge("a chunk is larger than any the engine makes")
    key.assert_id(chunk, plain)
    return plain


def check_size(key: Any, chunk: Any, stored: Any, most: int) -> Any:
    """Decrypt a chunk but leave it compressed. Raise TooLarge if it would unpack to more than `most` bytes."""
    if len(stored) > max(STORED_BYTES_MOST, most) + ENVELOPE_BYTES_MOST:
        raise TooLarge("a stored chunk is larger than any the engine makes")
    packed = bytes(key.decrypt(chunk, stored, decompress=False))
    if not fits(packed, most):
        raise TooLarge("a chunk unpacks to more than any the engine makes")
    return packed


def fits(packed: bytes, most: int) -> bool:
    """Whether compressed data unpacks to at most this many bytes, determined without unpacking all of it at once."""
    kind = packed[:2]
    if kind == b"\x00\x00":
        return len(packed) <= most + 2
    if kind == b"\x01\x00":
        return lz4_fits(packed[2:], max(most, LZ4_BYTES_MOST))
    if kind == b"\x02\x00":
        return streamed_fits(lzma.LZMADecompressor(), packed[2:], most)
    if kind == b"\x03\x00":
        return zstd_size(packed[2:]) <= most
    if kind == b"\x04\x00":  # padded, so its size means nothing: the compressed data is inside
        inner = packed[6 : 6 + int.from_bytes(packed[2:6], "little")]
        return inner[:2] != kind and fits(inner, most)
    return streamed_fits(zlib.decompressobj(), packed, most)


def streamed_fits(decompressor: Any, packed: bytes, most: int) -> bool:
    try:
        return len(decompressor.decompress(packed, most + 1)) <= most
    except (zlib.error, lzma.LZMAError):
        return True  # the engine will report it as broken


def zstd_size(packed: bytes) -> int:
    """The content size declared in the head of a zstd frame; the engine accepts no more than that."""
    if packed[:4] != b"\x28\xb5\x2f\xfd" or len(packed) < 6:
        return len(packed)  # broken; the engine rejects it, like a frame without a declared size
    flags = packed[4]
    single = bool(flags & 0x20)
    start = 5 + (0 if single else 1) + (0, 1, 2, 4)[flags & 3]
    width = (1 if single else 0, 2, 4, 8)[flags >> 6]
    size = int.from_bytes(packed[start : start + width], "little")
    return size + 256 if width == 2 else size


def lz4_fits(packed: bytes, most: int) -> bool:
    """Whether an lz4 block unpacks to at most `most` bytes. The block does not declare its size.

    Most blocks are so small that their content cannot be too large.
    """
    if 71 * len(packed) + 255 * packed.count(b"\xff") <= most:
        return True
    size = at = 0
    while at < len(packed) and size <= most:
        token = packed[at]
        literals, at = lz4_length(packed, at + 1, token >> 4)
        at += literals + 2
        size += literals
        if at >= len(packed):
            break
        match, at = lz4_length(packed, at, token & 15)
        size += match + 4
    return size <= most


def lz4_length(packed: bytes, at: int, length: int) -> Any:
    """Return the full length for which the token contains `length`, and the position after it."""
    if length < 15:
        return length, at
    while at < len(packed) and packed[at] == 255:
        length += 255
        at += 1
    return length + (packed[at] if at < len(packed) else 0), at + 1


def complain(output: IO[bytes], error: Exception) -> int:
    try:
        kind = "MemoryError" if is_out_of_memory(error) else type(error).__name__
        send(output, b"E", {"kind": kind, "message": str(error)[:MESSAGE_CHARACTERS_MOST]})
        output.flush()
    except BrokenPipeError:
        return 1
    return 2


def is_out_of_memory(error: Any) -> bool:
    """Whether an error, or one of its causes, is the memory limit."""
    while error is not None and not isinstance(error, MemoryError):
        error = error.__cause__ or error.__context__
    return error is not None


def send(output: IO[bytes], letter: bytes, value: Any) -> None:
    send_bytes(output, letter, json.dumps(value).encode())


def send_bytes(output: IO[bytes], letter: bytes, data: Any) -> None:
    output.write(_FRAME.pack(letter, len(data)))
    output.write(data)


def _stop(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)  # so that the repository is closed and its lock removed


if __name__ == "__main__":
    sys.exit(main(serve))
