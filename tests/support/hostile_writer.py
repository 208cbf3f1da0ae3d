"""Writes archives of any content into a repository of engine 1. Runs under the engine's own Python, imports nothing of ours.

Reads a pickled list of archives from standard input, each a dict: `name`, `chunks` (bytes that the engine packs as it does
its own, or `(id, bytes)` stored as they are), `items` (which chunks the archive names, by their numbers; all once if it is
missing) and `metadata` (fields of the archive's own record that differ from the usual ones).
"""

import pickle
import sys
from typing import Any


def main() -> None:
    from borg.helpers import Manifest  # type: ignore[import-not-found]
    from borg.logger import setup_logging  # type: ignore[import-not-found]
    from borg.repository import Repository  # type: ignore[import-not-found]

    setup_logging(level="error")

    archives = pickle.load(sys.stdin.buffer)
    with Repository(sys.argv[1], exclusive=True) as repository:
        manifest, key = Manifest.load(repository, (Manifest.Operation.WRITE,))
        for number, archive in enumerate(archives):
            write(archive, number, repository, manifest, key)
        manifest.write()
        repository.commit(compact=False)


def write(archive: Any, number: int, repository: Any, manifest: Any, key: Any) -> None:
    ids = [put(chunk, repository, key) for chunk in archive["chunks"]]
    clock = f"{1 + number // 86400:02}T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}"
    time = f"2026-01-{clock}.000000"
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
    """Store a chunk; `(id, bytes)` goes as it is behind the mark of a repository without encryption."""
    if isinstance(chunk, tuple):
        chunk_id, stored = chunk
        repository.put(chunk_id, b"\x02" + stored)
        return chunk_id
    chunk_id = key.id_hash(chunk)
    repository.put(chunk_id, key.encrypt(chunk))
    return chunk_id


if __name__ == "__main__":
    main()
