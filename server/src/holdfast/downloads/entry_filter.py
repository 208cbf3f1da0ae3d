"""Decides what a download contains: no names or links that lead out of the folder it is unpacked to.

Omitted entries are listed, with the reason, in a text file at the end of the download. So nothing is omitted silently,
and unpacking a download is safe even if another user has created a malicious archive.
"""

import json
import math
import re
import secrets
import tarfile

from backup_engine.far.unpack import LONGEST_NAME, ROOT, exact, link_fault, name_fault
from backup_jobs.paths import ancestors, readable

MANIFEST = "HOLDFAST-LEFT-OUT.txt"
INTRODUCTION = """\
Holdfast has left out of this download entries that could write outside the folder it is unpacked to,
or that a tar or zip file cannot hold. Restores to a machine are not affected. Each line: path, reason.

"""
MOST_LINES, MOST_CHARACTERS = 10_000, 1 << 20
MOST_LINKS = 500_000
"""Maximum number of symbolic links to remember, so that nothing below one is included. Further links are omitted."""
LATEST = 2**40
LARGEST_ID = 2**31 - 1
BELOW_LINK = "it is below a symbolic link of the archive"
LINK_TO_LEFT_OUT = "it is a hard link to a file that was left out"
TOO_MANY_LINKS = f"the archive has more than {MOST_LINKS} symbolic links"
FOR_WINDOWS = "the path leads out of the folder on Windows"
WINDOWS_WAY_OUT = re.compile(rb"(?:^|[/\\])\.\.(?:$|[/\\])|^\\|^[A-Za-z]:[/\\]")


class EntryFilter:
    """Checks entries one by one, in the order of the stream."""

    def __init__(self) -> None:
        self.count = 0
        self._lines: list[str] = []
        self._characters = 0
        self._links: set[int] = set()
        self._left_out: set[int] = set()
        self._above: tuple[bytes, bool] | None = None
        self._manifest_is_taken = False

    def passes(self, entry: tarfile.TarInfo) -> bool:
        """Whether the entry is included. Impossible numbers are corrected."""
        name = exact(entry.name)
        if name == ROOT and entry.isdir():
            return True
        if reason := self._fault(name, entry):
            self._leave_out(name, reason, exact(entry.linkname) if entry.issym() or entry.islnk() else None)
            return False
        if entry.issym():
            self._links.add(hash(name))
            self._above = None
        self._manifest_is_taken |= entry.name == MANIFEST
        _set_right(entry)
        return True

    @property
    def manifest_name(self) -> str:
        if not self._manifest_is_taken:
            return MANIFEST
        return MANIFEST.replace(".txt", f"-{secrets.token_hex(4)}.txt")

    def manifest(self) -> bytes:
        more = self.count - len(self._lines)
        last = [f"and {more} more"] if more else []
        return (INTRODUCTION + "\n".join([*self._lines, *last]) + "\n").encode()

    def _fault(self, name: bytes, entry: tarfile.TarInfo) -> str | None:
        fault = name_fault(name) or (FOR_WINDOWS if WINDOWS_WAY_OUT.search(name) else None)
        if fault is not None:
            return fault
        if self._lies_below_a_link(name):
            return BELOW_LINK
        if entry.issparse():
            return "its content is written in a form that engines do not use"
        target = exact(entry.linkname)
        if entry.issym():
            return TOO_MANY_LINKS if len(self._links) >= MOST_LINKS else link_fault(name, target)
        if entry.islnk():
            return self._hard_link_fault(target)
        return None

    def _hard_link_fault(self, target: bytes) -> str | None:
        if name_fault(target) or WINDOWS_WAY_OUT.search(target) or self._lies_below_a_link(target):
            return "the link leads out of the folder"
        return LINK_TO_LEFT_OUT if hash(target) in self._left_out else None

    def _lies_below_a_link(self, name: bytes) -> bool:
        """Entries are grouped by folder, so the result for one is reused for its neighbours."""
        folder = name.rpartition(b"/")[0]
        if self._above is None or self._above[0] != folder:
            above = (folder, *ancestors(folder)) if folder else ()
            self._above = folder, any(hash(each) in self._links for each in above)
        return self._above[1]

    def _leave_out(self, name: bytes, reason: str, target: bytes | None) -> None:
        self.count += 1
        if len(self._left_out) < MOST_LINES:
            self._left_out.add(hash(name))
        shown = _shown(name) if target is None else f"{_shown(name)} -> {_shown(target)}"
        line = f"{shown}: {reason}"
        if len(self._lines) < MOST_LINES and self._characters + len(line) < MOST_CHARACTERS:
            self._lines.append(line)
            self._characters += len(line)


def _shown(name: bytes) -> str:
    """A name on one line, without terminal control sequences."""
    short = readable(name[:LONGEST_NAME])
    return json.dumps(short if len(short) <= 1000 else f"{short[:1000]}…")


def _set_right(entry: tarfile.TarInfo) -> None:
    entry.mtime = min(max(entry.mtime, -LATEST), LATEST) if math.isfinite(entry.mtime) else 0
    entry.uid, entry.gid = (number if 0 <= number <= LARGEST_ID else 0 for number in (entry.uid, entry.gid))
    entry.mode &= 0o7777
