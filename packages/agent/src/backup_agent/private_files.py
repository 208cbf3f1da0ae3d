"""Files that only their owner may read, and that either exist completely or not at all."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from backup_engine import own_files

FILE_MODE = 0o600
FOLDER_MODE = 0o700


def make_folder(folder: Path) -> None:
    """Create a folder that only its owner may enter. Wider permissions of an existing folder are narrowed."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(FOLDER_MODE)


def write(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace a file atomically. With `durable`, the new content survives a power cut."""
    part = path.with_name(f"{path.name}.part")
    with os.fdopen(own_files.created(part), "wb") as file:
        file.write(content)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    part.replace(path)
    if durable:
        sync_folder(path.parent)


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    write(path, json.dumps(value).encode(), durable=durable)


def read_json(path: Path) -> Any:
    """The parsed content of the file; None if it is missing or incomplete."""
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_bytes())
    return None


def sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
