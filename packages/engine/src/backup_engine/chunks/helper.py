"""Hands out chunks of a repository, decrypted. Runs under the engine's own Python, as its own process.

This file (for engine 2: `helper_2.py` with it) is the only one that touches the engine's private API, so it is small,
stands alone (it imports nothing of Holdfast) and is used only after the self-test has passed with the very program it
belongs to. It reads and never writes: the metadata of archives under a shared lock, the content of files without one
(see `Contents`), or with one where `borg serve` reads them (see `ServedContents`).

Requests come as JSON lines on standard input, some with chunk ids side by side behind them; answers go as frames (one
letter, 8 bytes of length, content) to what was standard output when it started: J a JSON answer, I ids or numbers side
by side, C a chunk, E an error. It ends when its input does.

The repository may be hostile. Nothing is unpacked before its size is known, an archive may not unpack to far more than
is stored, and the kernel refuses this process more memory than `MEMORY_BYTES` beyond what the opened repository takes.
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
ENVELOPE_BYTES_MOST = 64 * 1024  # what encrypting and packing may add to a chunk that cannot be packed
CHUNK_BYTES_MOST = 4 * 1024 * 1024  # the engine cuts item metadata into chunks of at most 512 KiB
FILE_CHUNK_BYTES_MOST = 8 * 1024 * 1024  # the engine cuts files into chunks of at most 8 MiB
INDEX_BYTES_MOST = 2 * 1024 * 1024 * 1024  # of the repository's own index: about 40 million chunks
FILES_OPEN_SECONDS = 60.0  # an open file takes space that a compaction has freed
OBJECT_BYTES_MOST = 20 * 1024 * 1024  # manifest, and what an archive says about itself: the engine's own limit
SAME_CHUNK_MOST = 4  # times, on average; a real archive names one twice where a folder was given twice
ARCHIVE_BYTES_FREE = 8 * 1024 * 1024
ARCHIVE_RATIO_MOST = 200  # metadata of real trees packs 3 to 60 times

_FRAME = struct.Struct(">cQ")
_SEGMENT = struct.Struct(">I")
_ID_BYTES = 32
_CHUNKS_AT_ONCE = 32
MESSAGE_CHARACTERS_MOST = 1000
LZ4_BYTES_MOST = 16 * 1024 * 1024


class TooLarge(Exception):
    """Unpacking would take more memory than a real archive needs."""


class Replaced(Exception):
    """Another repository is in the place of the one that was opened."""


class LinkLost(Exception):
    """The server, or the way to it, is gone: nothing more can be read through this process."""


class Moved(Exception):
    """The chunk is not where the index says, and the repository is being written to: it may be found in a moment."""


def main(serve: Any) -> int:
    if sys.path and sys.path[0] == str(Path(__file__).parent):
        sys.path.pop(0)  # no file beside this one may be taken for a module of the engine
    output = os.fdopen(os.dup(1), "wb", 256 * 1024)
    os.dup2(2, 1)  # whatever the engine prints must not get between the frames
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGHUP, _stop)
    if sys.argv[1:2] == ["--once"]:  # all that would come on standard input, a line an argument
        sys.stdin = io.TextIOWrapper(io.BytesIO("".join(f"{line}\n" for line in sys.argv[2:]).encode()))
    try:
        serve(json.loads(sys.stdin.buffer.readline()), output)
    except BrokenPipeError:
        return 1
    except Exception as error:  # noqa: BLE001 - whatever it is, the other side has to be told
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
        except Exception as error:  # noqa: BLE001 - one archive is at fault, others may be fine
            complain(output, error)
        output.flush()


def serve_files(contents: Any, output: IO[bytes]) -> None:
    """Answer requests for parts of chunks, each `[id, size, start, end]`, one request after the other."""
    greet(output, repository_id=contents.repository_id)
    while True:
        # Nothing is left in a buffer meanwhile: whoever asks waits for the answer before the next request.
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
        except Exception as error:  # noqa: BLE001 - one chunk is at fault, others may be fine
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


def open_manifest(repository: Any) -> Any:
    """Load the manifest, within the limit on memory: only what the repository's own index takes comes before it."""
    from borg.crypto.key import key_factory  # type: ignore[import-not-found]
    from borg.helpers import Manifest

    stored = repository.get(Manifest.MANIFEST_ID)
    limit_memory()
    key = key_factory(repository, stored)
    check_size(key, None, stored, OBJECT_BYTES_MOST)
    return Manifest.load(repository, (Manifest.Operation.READ,), key)


def limit_memory() -> None:
    """Have the kernel refuse whatever goes beyond; without /proc (not Linux) the checks of sizes are all there is."""
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
    """Chunks of files, each `(id, size)`."""
    return [(bytes.fromhex(chunk), size) for chunk, size in request["chunks"]]


def real_chunks(chunks: Any) -> Any:
    if len(chunks) > SAME_CHUNK_MOST * len(set(chunks)):
        raise TooLarge("the archive names the same chunks of metadata again and again")
    return chunks


def hand_out(ids: Any, metadata: Any, budget: "Budget", output: IO[bytes]) -> None:
    """Send these chunks. Raise TooLarge for one that is too large, or when all of them are far more than is stored."""
    for start in range(0, len(ids), _CHUNKS_AT_ONCE):
        batch = ids[start : start + _CHUNKS_AT_ONCE]
        for chunk, (stored, plain) in zip(batch, metadata.chunks(batch)):  # noqa: B905 - 3.8 has no strict
            budget.spend(chunk, stored, len(plain))
            send_bytes(output, b"C", plain)


class Metadata:
    """The metadata of archives of an opened repository, and the content of their files for who proves it."""

    def __init__(self, repository: Any) -> None:
        self._repository = repository
        self._manifest, self._key = open_manifest(repository)

    def item_chunks(self, wanted: bytes) -> Any:
        """Return the ids of the chunks that the items of an archive are in."""
        from borg.archive import Archive  # type: ignore[import-not-found]

        archives = self._manifest.archives
        names = [name for name in archives if archives[name].id == wanted]
        if not names:
            raise LookupError("no archive with this id")
        check_size(self._key, wanted, self._repository.get(wanted), OBJECT_BYTES_MOST)
        return Archive(self._repository, self._key, self._manifest, names[0]).metadata.items

    def chunks(self, batch: Any) -> Any:
        """Yield how much is stored of each chunk, and its content."""
        for chunk, data in zip(batch, self._repository.get_many(batch)):  # noqa: B905 - 3.8 has no strict
            yield len(data), unpack(self._key, chunk, data, CHUNK_BYTES_MOST)

    def contents(self, wanted: Any) -> Any:
        """Given `(id, size)` of chunks of files, yield the content of each, authenticated.

        Raise ValueError for another size.
        """
        answers = self._repository.get_many([chunk for chunk, _ in wanted])
        for (chunk, size), stored in zip(wanted, answers):  # noqa: B905 - 3.8 has no strict
            yield cut_out(unpack(self._key, chunk, stored, FILE_CHUNK_BYTES_MOST), size, 0, size)

    def segments(self, ids: bytes) -> bytes:
        """Return where each chunk is: one more than its segment, 0 where the repository does not say."""
        index = getattr(self._repository, "index", None)
        if not index:
            return bytes(len(ids) // _ID_BYTES * _SEGMENT.size)
        places = (index.get(ids[at : at + _ID_BYTES]) for at in range(0, len(ids), _ID_BYTES))
        return b"".join(_SEGMENT.pack(place[0] + 1 if place else 0) for place in places)

    @staticmethod
    def stored_sizes(ids: bytes) -> bytes:
        """Items of engine 1 have them."""
        return bytes(len(ids) // _ID_BYTES * _SEGMENT.size)


class UnlockedChunks:
    """The chunks of a repository on this machine, read without a lock, also while an engine writes to it.

    The index may be out of date at any time: then a chunk is missing, or something else stands in its place. The id is
    a hash of the content and is compared after unpacking, so nothing but the right content is ever handed out.
    """

    repository_id: Any
    _files_since = 0.0

    def __init__(self, identity: Path) -> None:
        self._identity = identity
        self._identity_status = self._look()

    def is_replaced(self) -> bool:
        return bool(self._look() != self._identity_status)

    def _look(self) -> Any:
        """What the file that names the repository looks like: it is written when a repository is made."""
        status = self._identity.stat()
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size

    def parts(self, wanted: Any) -> Any:
        """Given `(id, size, start, end)` of chunks, return those bytes. Raise Moved if one may be found in a moment."""
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
        except Exception:  # whatever stands where the chunk was
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
        """Whether an engine has written another index, or is at work and may have removed what its next index lacks."""
        raise NotImplementedError

    def _load_index(self) -> None:
        raise NotImplementedError


class Contents(UnlockedChunks):
    """Of the engine's code only what reads is used. Its `open_index` removes an index that it cannot read and
    `get_transaction_id` may replay segments, so the index is read here.
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
            del files[segment]  # `clear` of 1.2 leaves half of it behind
        super().close_files()

    def _unpacked(self, chunk: bytes, size: int) -> Any:  # noqa: ARG002 - engine 2 needs it
        return unpack(self._key, chunk, self._stored(chunk), FILE_CHUNK_BYTES_MOST)

    def _may_be_out_of_date(self) -> bool:
        try:
            is_known = self._repository.get_index_transaction_id() == self._transaction
        except OSError:  # a file that was listed is gone
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
        self._index = self._transaction = None  # two of them would take twice the memory
        self.close_files()
        expected = self._repository._read_integrity(transaction, b"index")  # noqa: SLF001 - it only reads
        with IntegrityCheckedFile(str(file), write=False, integrity_data=expected) as stream:
            self._index = NSIndex.read(stream)
        self._transaction = transaction


class ServedContents:
    """The content of files of a repository on a server, read by `borg serve` there under the shared lock that it took.

    Nobody writes to the repository meanwhile, so a chunk that is not there is not looked for again.
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
        """They are the server's."""

    def parts(self, wanted: Any) -> Any:
        """As `UnlockedChunks.parts`; all chunks are asked for at once, and each is cut before the next is unpacked."""
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
    """What the metadata of one archive may unpack to: a chunk that is named again and again is stored once."""

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


# --- unpacking within bounds ------------------------------------------------------------------------------------------


def unpack(key: Any, chunk: Any, stored: Any, most: int) -> Any:
    """Given a stored chunk, return its content, authenticated. Raise TooLarge if that has more bytes than `most`."""
    plain = key.decompress(check_size(key, chunk, stored, most))
    if len(plain) > most:
        raise TooLarge("a chunk is larger than any the engine makes")
    key.assert_id(chunk, plain)
    return plain


def check_size(key: Any, chunk: Any, stored: Any, most: int) -> Any:
    """Return what was packed, decrypted. Raise TooLarge if it would unpack to more bytes than `most`."""
    if len(stored) > max(STORED_BYTES_MOST, most) + ENVELOPE_BYTES_MOST:
        raise TooLarge("a stored chunk is larger than any the engine makes")
    packed = bytes(key.decrypt(chunk, stored, decompress=False))
    if not fits(packed, most):
        raise TooLarge("a chunk unpacks to more than any the engine makes")
    return packed


def fits(packed: bytes, most: int) -> bool:
    """Whether what the engine's compressor made has at most this many bytes, found out without unpacking it at once."""
    kind = packed[:2]
    if kind == b"\x00\x00":
        return len(packed) <= most + 2
    if kind == b"\x01\x00":
        return lz4_fits(packed[2:], max(most, LZ4_BYTES_MOST))
    if kind == b"\x02\x00":
        return streamed_fits(lzma.LZMADecompressor(), packed[2:], most)
    if kind == b"\x03\x00":
        return zstd_size(packed[2:]) <= most
    if kind == b"\x04\x00":  # padded, so that its size tells nothing: what is packed stands inside
        inner = packed[6 : 6 + int.from_bytes(packed[2:6], "little")]
        return inner[:2] != kind and fits(inner, most)
    return streamed_fits(zlib.decompressobj(), packed, most)


def streamed_fits(decompressor: Any, packed: bytes, most: int) -> bool:
    try:
        return len(decompressor.decompress(packed, most + 1)) <= most
    except (zlib.error, lzma.LZMAError):
        return True  # the engine will say that it is broken


def zstd_size(packed: bytes) -> int:
    """Given a zstd frame, return the size of its content as its head declares it: the engine takes no more than
    that.
    """
    if packed[:4] != b"\x28\xb5\x2f\xfd" or len(packed) < 6:
        return len(packed)  # broken, and the engine refuses it as it refuses a frame that declares no size
    flags = packed[4]
    single = bool(flags & 0x20)
    start = 5 + (0 if single else 1) + (0, 1, 2, 4)[flags & 3]
    width = (1 if single else 0, 2, 4, 8)[flags >> 6]
    size = int.from_bytes(packed[start : start + width], "little")
    return size + 256 if width == 2 else size


def lz4_fits(packed: bytes, most: int) -> bool:
    """An lz4 block does not declare its size. Most are so small that no content of theirs can be too large."""
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
    """Return a length of which the token says this much, and where it ends."""
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
    """Whether an error, or one that it was made of, is the limit on memory."""
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
