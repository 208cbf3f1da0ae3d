"""Folders of the service's machine, of ssh machines and of agents, as listed by Python there.

A separate process reads them, even on the service's own machine, so that an unresponsive file system delays no request
beyond the time limit. A machine's answer is checked for its format and trusted in nothing else.
"""

import base64
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from backup_engine.frozen import frozen
from backup_jobs import folders
from holdfast.errors import Unprocessable
from holdfast.execution import ssh
from holdfast.machines.errors import refused
from holdfast.machines.machines import Machines
from holdfast.repositories.location import AgentEngines

SECONDS = 20.0
MOST_REASON = 300


class _Shape(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class FoundEntry(_Shape):
    name: str
    type: str
    is_folder: bool
    size: int | None
    readable: bool
    mount: bool


class FoundFolder(_Shape):
    path: str
    entries: list[FoundEntry]
    more: bool
    cut_short: bool


class FoundRepository(_Shape):
    engine_version: int
    engine_id: str | None
    encryption: str | None


class FoundPlace(_Shape):
    exists: bool
    is_folder: bool
    empty: bool | None
    readable: bool
    writable: bool
    free_bytes: int
    total_bytes: int
    repository: FoundRepository | None


class FoundSize(_Shape):
    files: int
    folders: int
    bytes: int
    unreadable: int
    complete: bool


Found = TypeVar("Found", FoundFolder, FoundPlace, FoundSize)


@frozen
class Where:
    """A machine: an ssh connection or an agent; with neither, the service's own."""

    connection_id: int | None = None
    agent_machine_id: int | None = None


@frozen
class Folders:
    machines: Machines
    agents: AgentEngines

    def listing(self, where: Where, path: bytes, after: bytes, limit: int, *, folders_only: bool) -> FoundFolder:
        """List a folder. Raise Unprocessable if the folder or the machine cannot be read."""
        wanted = {"path": _text(path), "after": _text(after), "limit": limit, "folders_only": folders_only}
        found = _shaped(FoundFolder, self._asked(where, {"ask": "listing", **wanted}))
        if len(found.entries) > limit:
            raise not_answered("It returned more names than requested.")
        return found

    def place(self, where: Where, path: bytes) -> FoundPlace:
        """Inspect a path. Raise Unprocessable if the machine cannot be reached."""
        return _shaped(FoundPlace, self._asked(where, {"ask": "probe", "path": _text(path)}))

    def size(self, where: Where, paths: Sequence[bytes]) -> FoundSize:
        """Estimate how much a backup of the paths would read.

        Raise Unprocessable if a path is missing or the machine does not answer.
        """
        return _shaped(FoundSize, self._asked(where, {"ask": "estimate", "paths": [_text(path) for path in paths]}))

    def _asked(self, where: Where, question: Mapping[str, Any]) -> Any:
        answer = self._answer(where, question)
        if answer.failure is not None:
            timed_out = where.connection_id is None or answer.failure == "ssh.failed"
            raise not_answered("It did not respond in time.") if timed_out else refused(answer.failure)
        if answer.code != 0:
            raise not_answered(answer.errors.strip().rpartition("\n")[2] or f"Python ended with {answer.code}.")
        try:
            return answer.document()
        except ValueError as error:
            raise not_answered("Its response is not JSON.") from error

    def _answer(self, where: Where, question: Mapping[str, Any]) -> ssh.Answer:
        if where.agent_machine_id is not None:
            return self.agents.look(where.agent_machine_id, question)
        script = Path(folders.__file__).read_text()
        question_text = base64.b64encode(json.dumps(question).encode()).decode()
        if where.connection_id is None:
            return self._here(script, question_text)
        return self._there(where.connection_id, script, question_text)

    def _here(self, script: str, question_text: str) -> ssh.Answer:
        return ssh.run_here((sys.executable, "-I", "-S", "-c", script, question_text), SECONDS)

    def _there(self, connection_id: int, script: str, question_text: str) -> ssh.Answer:
        machine = self.machines.machine(connection_id)
        if machine.python is None:
            raise Unprocessable("filesystem.python_missing", "The machine has no Python 3.9 or newer; install it.")
        command = shlex.join((machine.python, "-I", "-S", "-c", script, question_text))
        return ssh.run_script(self.machines.links.link(connection_id), f"exec {command}\n", SECONDS)


def _shaped(shape: type[Found], answer: Any) -> Found:
    if isinstance(answer, dict) and isinstance(answer.get("reason"), str):
        raise unreadable(str(answer["reason"]))
    try:
        return shape.model_validate(answer)
    except ValidationError as error:
        raise not_answered("Its response has an unexpected format.") from error


def bytes_of(text: str) -> bytes:
    """Given a name as reported by a machine, return its bytes. Raise Unprocessable if it is not valid."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise not_answered("A name is not valid base64.") from error


def unreadable(reason: str) -> Unprocessable:
    return Unprocessable("filesystem.unreadable", f"The folder cannot be read: {reason[:MOST_REASON]}.")


def not_answered(reason: str) -> Unprocessable:
    return Unprocessable("filesystem.not_answered", f"The machine did not respond: {reason[:MOST_REASON]}")


def _text(path: bytes) -> str:
    return base64.b64encode(path).decode()
