"""The counterpart of `helper.py` for engine 2, whose repositories are stores of packs. It runs in its place and needs
it in the same folder.

Only fragments of the index are read: the engine would otherwise remove what it cannot read and store what it rebuilds.
The store is opened with permission to read, and to write nothing but the lock.
"""

import json
import os
import sys
import zlib
from lzma import LZMADecompressor
from pathlib import Path
from typing import IO, Any

import helper as shared  # type: ignore[import-not-found]

FRAGMENTS_BYTES_MOST = 4 * 1024 * 1024 * 1024  # limit for the repository's own index: about 40 million chunks
READ_ONLY = "read-only"


def serve(request: Any, output: IO[bytes]) -> None:
    from borg.logger import setup_logging  # type: ignore[import-not-found]
    from borg.repository import Repository  # type: ignore[import-not-found]

    os.nice(request["niceness"])
    setup_logging(level="error")
    path = request["repository"]
    if request.get("reads_files"):
        shared.serve_files(Contents(path), output)
        return
    with Repository(path, exclusive=False, lock_wait=request["lock_wait"], permissions=READ_ONLY) as repository:
        shared.serve_metadata(Metadata(repository), repository.id, output)


class Objects:
    """Objects stored in an opened repository, unpacked within limits."""

    def __init__(self, repository: Any) -> None:
        from borg.constants import ROBJ_MANIFEST  # type: ignore[import-not-found]
        from borg.crypto.key import key_factory  # type: ignore[import-not-found]
        from borg.manifest import Manifest  # type: ignore[import-not-found]
        from borg.repoobj import RepoObj  # type: ignore[import-not-found]

        self.repository = repository
        self.load_index()
        stored = repository.get_manifest()
        shared.limit_memory()
        self.key = key_factory(repository, stored)
        self._parser = RepoObj(self.key)
        self.unpack(Manifest.MANIFEST_ID, stored, ROBJ_MANIFEST, shared.OBJECT_BYTES_MOST, has_id=False)

    def load_index(self) -> None:
        """Load the index. Raise LookupError if it cannot be read or is incomplete."""
        from borg.cache import build_chunkindex_from_repo  # type: ignore[import-not-found]

        if sum(info.size for info in self.repository.store_list("index")) > FRAGMENTS_BYTES_MOST:
            raise shared.TooLarge("the repository's index is too large to be kept in memory")
        self.repository.invalidate_chunk_index()  # two indexes would take twice the memory
        index = build_chunkindex_from_repo(self.repository, fragments_only=True)
        if index is None:
            raise LookupError("the repository has no complete index")
        self.repository.chunks = index

    def stored(self, chunk: bytes, most: int) -> Any:
        place = self.repository.chunks.get(chunk)
        if place is None:
            raise LookupError("the repository has no such chunk")
        if place.obj_size > max(shared.STORED_BYTES_MOST, most) + shared.ENVELOPE_BYTES_MOST:
            raise shared.TooLarge("a stored chunk is larger than any the engine makes")
        return self.repository.get(chunk)

    def unpack(self, chunk: bytes, stored: Any, kind: str, most: int, *, has_id: bool = True) -> Any:
        """Unpack a stored object and authenticate it. Raise TooLarge if its content exceeds `most` bytes."""
        from borg.compress import Compressor  # type: ignore[import-not-found]

        about, packed = self._parser.parse(chunk, stored, decompress=False, want_compressed=True, ro_type=kind)
        packed = bytes(packed[: about.get("psize", len(packed))])  # the rest is padding that hides the size
        if not fits(about["ctype"], packed, most):
            raise shared.TooLarge("a chunk unpacks to more than any the engine makes")
        compressor, level = Compressor.detect(bytes((about["ctype"], about["clevel"])))
        _, plain = compressor(level=level).decompress(dict(about), packed)
        if len(plain) > most:
            raise shared.TooLarge("a chunk is larger than any the engine makes")
        if has_id:
            self.key.assert_id(chunk, plain)
        return bytes(plain)

    def file_chunk(self, chunk: bytes, size: int) -> Any:
        """Return the content of a file chunk that should have this size."""
        from borg.constants import ROBJ_FILE_STREAM

        most = shared.FILE_CHUNK_BYTES_MOST
        if size <= most and chunk not in self.repository.chunks:
            zeros = bytes(size)  # the engine need not store chunks of zeros
            if self.key.id_hash(zeros) == chunk:
                return zeros
        return self.unpack(chunk, self.stored(chunk, most), ROBJ_FILE_STREAM, most)


def fits(kind: int, packed: bytes, most: int) -> Any:
    """Whether compressed data unpacks to at most this many bytes, determined without unpacking all of it at once."""
    if kind == 0:
        return len(packed) <= most
    if kind == 1:
        return shared.lz4_fits(packed, max(most, shared.LZ4_BYTES_MOST))
    if kind == 2:
        return shared.streamed_fits(LZMADecompressor(), packed, most)
    if kind == 3:
        return shared.zstd_size(packed) <= most
    if kind == 5:
        return shared.streamed_fits(zlib.decompressobj(), packed, most)
    raise ValueError("a chunk is packed in an unknown way")


class Metadata:
    """Metadata of the archives in an opened repository, and contents of file chunks for callers that verify them."""

    def __init__(self, repository: Any) -> None:
        from borg.manifest import Manifest

        self._objects = Objects(repository)
        self._repository = repository
        self._manifest = Manifest.load(repository, (Manifest.Operation.READ,), self._objects.key)

    def item_chunks(self, wanted: bytes) -> Any:
        """Return the ids of the chunks that contain an archive's items."""
        from borg.constants import ROBJ_ARCHIVE_CHUNKIDS, ROBJ_ARCHIVE_META
        from borg.helpers import msgpack  # type: ignore[import-not-found]

        if wanted not in set(self._manifest.archives.ids()):
            raise LookupError("no archive with this id")
        archive = self._objects.key.unpack_archive(self._object(wanted, ROBJ_ARCHIVE_META))
        if archive["version"] != 2:
            raise ValueError("the archive has an unknown version")
        return [
            chunk
            for pointer in archive["item_ptrs"]
            for chunk in msgpack.unpackb(self._object(pointer, ROBJ_ARCHIVE_CHUNKIDS))
        ]

    def _object(self, chunk: bytes, kind: str) -> Any:
        most = shared.OBJECT_BYTES_MOST
        return self._objects.unpack(chunk, self._objects.stored(chunk, most), kind, most)

    def chunks(self, batch: Any) -> Any:
        """Yield the stored size and the content of each chunk."""
        from borg.constants import ROBJ_ARCHIVE_STREAM

        for chunk in batch:
            stored = self._objects.stored(chunk, shared.CHUNK_BYTES_MOST)
            yield len(stored), self._objects.unpack(chunk, stored, ROBJ_ARCHIVE_STREAM, shared.CHUNK_BYTES_MOST)

    def contents(self, wanted: Any) -> Any:
        """Given `(id, size)` of file chunks, yield the authenticated content of each.

        Raise ValueError if a size differs.
        """
        for chunk, size in wanted:
            yield shared.cut_out(self._objects.file_chunk(chunk, size), size, 0, size)

    @staticmethod
    def segments(ids: bytes) -> bytes:
        """Zeros: packs have no numbers."""
        return bytes(len(ids) // 8)

    def stored_sizes(self, ids: bytes) -> bytes:
        """Return the stored size of each chunk in bytes; 0 if the repository does not record it."""
        places = (self._repository.chunks.get(ids[at : at + 32]) for at in range(0, len(ids), 32))
        return b"".join((place.obj_size if place else 0).to_bytes(4, "big") for place in places)


class Contents(shared.UnlockedChunks):  # type: ignore[misc]
    """File contents of a repository of engine 2. Locks are inspected, never taken."""

    def __init__(self, path: str) -> None:
        from borg.repository import Repository

        super().__init__(Path(path) / "config" / "id")
        repository = Repository(path, lock=False, permissions=READ_ONLY)
        repository.store.backend._quota_delete = lambda: None  # noqa: SLF001 - opening may remove a file
        repository.open(exclusive=False, lock_wait=0, lock=False)
        self.repository_id = repository.id.hex()
        self._path = Path(path)
        self._fragments = self._fragments_now()
        self._objects = Objects(repository)

    def _fragments_now(self) -> Any:
        return sorted(file.name for file in (self._path / "index").iterdir())

    def _unpacked(self, chunk: bytes, size: int) -> Any:
        return self._objects.file_chunk(chunk, size)

    def _may_be_out_of_date(self) -> bool:
        try:
            return self._fragments_now() != self._fragments or self._is_locked()
        except OSError:
            return True

    def _is_locked(self) -> bool:
        """Whether an engine has an exclusive lock."""
        for file in (self._path / "locks").iterdir():
            try:
                if json.loads(file.read_bytes())["exclusive"]:
                    return True
            except FileNotFoundError:
                continue
            except (ValueError, KeyError, TypeError):
                return True
        return False

    def _load_index(self) -> None:
        now = self._fragments_now()
        if now != self._fragments:
            self._objects.load_index()
            self._fragments = now


if __name__ == "__main__":
    sys.exit(shared.main(serve))
