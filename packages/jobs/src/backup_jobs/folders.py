"""Inspect folders: list names, and tell whether a folder is or can become a repository. Runs on the machine itself.

The text of this file is also run by the Python of other machines, so it needs nothing but the standard library of 3.9.
"""

from __future__ import annotations

import base64
import configparser
import heapq
import json
import os
import stat
import sys
import time
from typing import Any

MOST_LOOKED_AT = 50_000
"""Maximum number of names read from one folder. A larger folder is listed in part, and the answer marks that."""
MOST_CONFIG_BYTES = 1 << 20
ENGINE_2_CONFIG = b"config/version"
WALK_SECONDS = 15.0
MOST_REMEMBERED = 200_000
"""Maximum number of folders still to visit plus files with several names. If an estimate needs more, or more time, it
covers only a part, and the answer marks that.
"""


def listing(path: bytes, after: bytes, limit: int, *, folders_only: bool) -> dict[str, Any]:
    """List the names in a folder after a given name, sorted by bytes. Raise OSError."""
    found: list[os.DirEntry[bytes]] = []
    looked_at, is_cut_short = 0, False
    with os.scandir(path) as entries:
        for entry in entries:
            looked_at += 1
            if looked_at > MOST_LOOKED_AT:
                is_cut_short = True
                break
            if entry.name > after and (not folders_only or _is_folder(entry)):
                found.append(entry)
    names = heapq.nsmallest(limit + 1, found, key=lambda entry: entry.name)
    return {
        "path": _text(os.path.realpath(path)),
        "entries": [_entry(entry) for entry in names[:limit]],
        "more": len(names) > limit,
        "cut_short": is_cut_short,
    }


def probe(path: bytes) -> dict[str, Any]:
    """Report whether a repository is, or can be created, at a path. Facts that cannot be read are None."""
    place = _existing(path)
    space = os.statvfs(place)
    found: dict[str, Any] = {
        "exists": os.path.lexists(path),
        "is_folder": os.path.isdir(path),
        "empty": None,
        "readable": os.access(path, os.R_OK | os.X_OK),
        "writable": os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK),
        "free_bytes": space.f_bavail * space.f_frsize,
        "total_bytes": space.f_blocks * space.f_frsize,
        "repository": None,
    }
    if found["is_folder"] and found["readable"]:
        with os.scandir(path) as entries:
            found["empty"] = next(entries, None) is None
        found["repository"] = _repository(path)
    return found


def estimate(paths: list[bytes]) -> dict[str, Any]:
    """Measure what a backup of these paths would read: every file once, following no links.

    Raise OSError for a missing path.
    """
    deadline = time.monotonic() + WALK_SECONDS
    found: dict[str, Any] = {"files": 0, "folders": 0, "bytes": 0, "unreadable": 0, "complete": True}
    seen: set[tuple[int, int]] = set()
    waiting = []
    for path in paths:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            waiting.append(path)
        else:
            _add(found, seen, status)
    while waiting:
        if time.monotonic() > deadline or len(waiting) + len(seen) > MOST_REMEMBERED:
            found["complete"] = False
            break
        folder = waiting.pop()
        found["folders"] += 1
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        _add(found, seen, entry.stat(follow_symlinks=False))
        except OSError:
            found["unreadable"] += 1
    return found


def _add(found: dict[str, Any], seen: set[tuple[int, int]], status: os.stat_result) -> None:
    found["files"] += 1
    if not stat.S_ISREG(status.st_mode):
        return
    if status.st_nlink > 1:
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
    found["bytes"] += status.st_size


def _repository(path: bytes) -> dict[str, Any] | None:
    """Return the engine's major version, the repository's id and its encryption, as far as the files show them. None if
    the folder is not a repository.
    """
    if os.path.isfile(os.path.join(path, ENGINE_2_CONFIG)):
        return {"engine_version": 2, "engine_id": _short_text(os.path.join(path, b"config/id")), "encryption": None}
    try:
        with open(os.path.join(path, b"config"), "rb") as file:
            text = file.read(MOST_CONFIG_BYTES).decode("utf-8", "replace")
        config = configparser.ConfigParser(interpolation=None)
        config.read_string(text)
        values = config["repository"]
        if values.get("version") != "1":
            return None
        has_key = bool((values.get("key") or "").strip())
        return {
            "engine_version": 1,
            "engine_id": (values.get("id") or "")[:64] or None,
            "encryption": "repokey" if has_key else None,
        }
    except (OSError, ValueError, KeyError, configparser.Error):
        return None


def _short_text(path: bytes) -> str | None:
    try:
        with open(path, "rb") as file:
            return file.read(64).decode("ascii", "replace").strip() or None
    except OSError:
        return None


def _existing(path: bytes) -> bytes:
    """Return the path, or the nearest existing folder above it."""
    while not os.path.lexists(path) and path not in (b"", b"/"):
        path = os.path.dirname(path)
    return path or b"/"


def _entry(entry: os.DirEntry[bytes]) -> dict[str, Any]:
    try:
        status = entry.stat(follow_symlinks=False)
        kind, size = stat.filemode(status.st_mode)[0], status.st_size
    except OSError:
        kind, size = "?", 0
    is_folder = _is_folder(entry)
    return {
        "name": _text(entry.name),
        "type": kind,
        "is_folder": is_folder,
        "size": size if kind == "-" else None,
        "readable": os.access(entry.path, os.R_OK | os.X_OK if is_folder else os.R_OK),
        "mount": is_folder and kind == "d" and os.path.ismount(entry.path),
    }


def _is_folder(entry: os.DirEntry[bytes]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _text(path: bytes) -> str:
    return base64.b64encode(path).decode("ascii")


def main(question: dict[str, Any]) -> dict[str, Any]:
    """Answer a question, or return the reason why it cannot be answered."""
    try:
        if question["ask"] == "estimate":
            return estimate([base64.b64decode(path) for path in question["paths"]])
        path = base64.b64decode(question["path"])
        if question["ask"] == "probe":
            return probe(path)
        after = base64.b64decode(question["after"])
        return listing(path, after, question["limit"], folders_only=question["folders_only"])
    except OSError as error:
        return {"errno": error.errno, "reason": error.strerror or "unknown error"}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(base64.b64decode(sys.argv[1])))))  # noqa: T201 - the answer
