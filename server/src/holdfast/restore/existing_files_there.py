"""Finds existing files at a destination on an ssh machine, using that machine's Python while the listing is read.

The machine checks each path as it arrives and answers at the end, so neither side keeps more than the first conflicts.
"""

import base64
import shlex
from pathlib import Path

from pydantic import BaseModel, Field

from backup_engine.command import Machine
from backup_engine.listing import ListedFile
from backup_jobs.restore import existing_files
from backup_jobs.restore.layout import Placement
from backup_jobs.restore.survey import MOST_SHOWN, Survey, is_safe
from holdfast.errors import Unprocessable
from holdfast.execution.ssh import RemoteProgram
from holdfast.machines.errors import refused
from holdfast.restore import errors

MAIN = """

import base64
import json
import sys


def fields():
    rest = b""
    while True:
        block = sys.stdin.buffer.read1(1 << 16)
        if not block:
            return
        *whole, rest = (rest + block).split(b"\\0")
        yield from whole


def in_the_way(root):
    place = b""
    for part in filter(None, root.split(b"/")):
        place += b"/" + part
        try:
            mode = os.lstat(place).st_mode
        except FileNotFoundError:
            return None
        except OSError as error:
            return {"unusable": error.strerror}
        if stat.S_ISLNK(mode):
            return {"link": place.decode("utf-8", "replace")}
        if not stat.S_ISDIR(mode):
            return {"unusable": place.decode("utf-8", "replace") + " is not a folder"}


def main(root, most):
    bad = in_the_way(root)
    if bad:
        return bad
    there, count, files, found = ExistingFiles(root), 0, 0, []
    received = fields()
    for kind, path, target in zip(received, received, received):
        reason = there.conflict(target, is_directory=kind == b"d")
        if reason:
            count += 1
            files += kind != b"d"
            if len(found) < most:
                found.append([base64.b64encode(path).decode(), reason])
    return {"count": count, "files": files, "found": found, "free": free_bytes(root)}


print(json.dumps(main(base64.b64decode(sys.argv[1]), int(sys.argv[2]))))
"""


class InTheWay(BaseModel):
    """The machine's answer."""

    link: str | None = None
    unusable: str | None = None
    count: int = Field(0, ge=0)
    files: int = Field(0, ge=0)
    free: int | None = Field(None, ge=0)
    found: list[tuple[str, str]] = Field([], max_length=MOST_SHOWN)


class ExistingFilesThere:
    """Takes the paths of a restore, and reports conflicts at the end."""

    def __init__(self, machine: Machine, placement: Placement, destination: bytes) -> None:
        """Start the check. Raise Unprocessable if the machine has no Python."""
        if machine.python is None:
            raise errors.python_missing()
        script = Path(existing_files.__file__).read_text() + MAIN
        arguments = ("-I", "-S", "-c", script, base64.b64encode(destination).decode(), str(MOST_SHOWN))
        self._placement = placement
        try:
            self._program = RemoteProgram((*machine.ssh, shlex.join((machine.python, *arguments))))
        except OSError as error:
            raise refused("ssh.not_installed") from error

    def add(self, item: ListedFile) -> None:
        if item.is_special or not is_safe(item.path):
            return
        target = self._placement.target(item.path, is_directory=item.is_directory)
        if target is not None:
            self._program.send(b"\0".join((b"d" if item.is_directory else b"-", item.path, target, b"")))

    def add_to(self, surveyed: Survey) -> int | None:
        """Return the free bytes there. Raise Unprocessable if the machine does not answer or the path is invalid."""
        answer = self._program.answer()
        if answer.failure is not None:
            raise refused(answer.failure)
        if answer.code != 0:
            raise errors.not_answered(
                answer.errors.strip().rpartition("\n")[2][:500] or f"Python ended with {answer.code}."
            )
        try:
            found = InTheWay.model_validate(answer.document())
            conflicts = [(base64.b64decode(path, validate=True), reason) for path, reason in found.found]
        except ValueError as error:
            raise errors.not_answered("Its response has an unexpected format.") from error
        if found.link is not None:
            raise Unprocessable(
                "restore.destination_is_link",
                f"The place {found.link} is a symbolic link, and restores do not write through links. Use the folder "
                f"that it points to.",
            )
        if found.unusable is not None:
            raise Unprocessable("restore.destination_unusable", f"The destination cannot be used: {found.unusable}.")
        surveyed.conflict_count = found.count
        surveyed.conflicts = conflicts
        surveyed.occupied_files = found.files
        return found.free

    def close(self) -> None:
        self._program.close()
