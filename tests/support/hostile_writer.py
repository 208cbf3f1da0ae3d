"""Write archives with arbitrary content into a repository. Runs under the engine's own Python, without code of
Holdfast.

Reads a pickled list of archives from standard input, each a dict: `name`, `chunks` (bytes that the engine packs like
its own, or `(id, bytes)` stored as they are), `items` (the numbers of the chunks that the archive refers to; by default
each once) and `metadata` (fields of the archive's own record that differ from the usual ones). For engine 2, chunks are
bytes.
"""

import pickle
import sys
from typing import Any


def main() -> None:
    import borg  # type: ignore[import-not-found]
    from borg.logger import setup_logging  # type: ignore[import-not-found]

    setup_logging(level="error")
    archives = pickle.load(sys.stdin.buffer)
    if borg.__version__.startswith("2."):
        write_all_2(archives)
    else:
        write_all_1(archives)


def write_all_1(archives: Any) -> None:
    from borg.helpers import Manifest  # type: ignore[import-not-found]
    from borg.repository import Repository  # type: ignore[import-not-found]

    with Repository(sys.argv[1], exclusive=True) as repository:
        manifest, key = Manifest.load(repository, (Manifest.Operation.WRITE,))
        for number, archive in enumerate(archives):
            write(archive, number, repository, manifest, key)
        manifest.write()
        repository.commit(compact=False)


def write_all_2(archives: Any) -> None:
    from borg.cache import Cache  # type: ignore[import-not-found]
    from borg.manifest import Manifest  # type: ignore[import-not-found]
    from borg.repository import Repository

    with Repository(sys.argv[1], exclusive=True) as repository:
        manifest = Manifest.load(repository, (Manifest.Operation.WRITE,))
        with Cache(repository, manifest) as cache:
            for number, archive in enumerate(archives):
                write_2(archive, number, repository, manifest, cache)
        manifest.write()


def write_2(archive: Any, number: int, repository: Any, manifest: Any, cache: Any) -> None:
    from borg.archive import Statistics, archive_put_items  # type: ignore[import-not-found]
    from borg.constants import (  # type: ignore[import-not-found]
        CHUNKER_PARAMS,
        ROBJ_ARCHIVE_META,
        ROBJ_ARCHIVE_STREAM,
    )

    stats = Statistics()

    def put_2(chunk: bytes, kind: str) -> Any:
        chunk_id = manifest.repo_objs.id_hash(chunk)
        cache.add_chunk(chunk_id, {}, chunk, stats=stats, ro_type=kind)
        return chunk_id

    ids = [put_2(chunk, ROBJ_ARCHIVE_STREAM) for chunk in archive["chunks"]]
    time = f"{time_of(number)}+00:00"
    metadata = {
        "version": 2,
        "name": archive["name"],
        "comment": "",
        "tags": [],
        "item_ptrs": archive_put_items(
            [ids[one] for one in archive["items"]], repo_objs=manifest.repo_objs, cache=cache, stats=stats
        ),
        "command_line": "borg create",
        "hostname": "elsewhere",
        "username": "somebody",
        "time": time,
        "start": time,
        "end": time,
        "chunker_params": CHUNKER_PARAMS,
        "size": 0,
        "nfiles": 0,
        **archive.get("metadata", {}),
    }
    repository.flush()
    archive_id = put_2(manifest.key.pack_metadata(metadata), ROBJ_ARCHIVE_META)
    manifest.archives.create(archive["name"], archive_id, time)


def time_of(number: int) -> str:
    clock = f"{1 + number // 86400:02}T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}"
    return f"2026-01-{clock}.000000"


def write(archive: Any, number: int, repository: Any, manifest: Any, key: Any) -> None:
    ids = [put(chunk, repository, key) for chunk in archive["chunks"]]
    time = time_of(number)
    metadata = {
        "version": 1,
        "name": archive["name"],
        "comment": "",
        "items": [ids[one] for one in archive.get("items", range(len(ids)))],
        "cmdline": ["borg", "create"],
        "hostname": "elsewhere",
        "username": "somebody",
        "time": time,
        "time_end": time,
        "chunker_params": ("buzhash", 19, 23, 21, 4095),
        **archive.get("metadata", {}),
    }
    packed = key.pack_and_authenticate_metadata(metadata, context=b"archive")
    archive_id = put(packed, repository, key)
    manifest.archives[archive["name"]] = (archive_id, time)


def put(chunk: Any, repository: Any, key: Any) -> Any:
    """Store a chunk; `(id, bytes)` is stored as it is, after the mark of an unencrypted repository."""
    if isinstance(chunk, tuple):
        chunk_id, stored = chunk
        repository.put(chunk_id, b"\x02" + stored)
        return chunk_id
    chunk_id = key.id_hash(chunk)
    repository.put(chunk_id, key.encrypt(chunk))
    return chunk_id


if __name__ == "__main__":
    main()
