"""An engine on an ssh machine, for the helper: how to reach it, and what to send there."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from backup_engine.chunks.commands import SELFTEST_REPOSITORY
from backup_engine.command import Secret
from backup_engine.compiled import run_compiled
from backup_engine.far import helper_proxy, remote_helper
from backup_engine.frozen import frozen
from holdfast.history.chunks.program import HELPER, HELPER_2

Texts = Sequence[tuple[str, str]]


@frozen
class FarEngine:
    ssh: tuple[str, ...]
    """The beginning of a command line for the machine."""
    python: str
    """A Python of the machine, which finds the engine's own."""
    program: str
    tested: str | None = None
    """`fingerprint` of the program that has passed the self-test; None accepts any program."""

    @property
    def key(self) -> str:
        """The key under which its one verdict is stored, whatever the machine reports."""
        return "ssh " + hashlib.sha256(json.dumps([self.ssh, self.program]).encode()).hexdigest()[:24]

    @property
    def command(self) -> list[str]:
        """The command that runs here in place of the helper."""
        return list(run_compiled(helper_proxy.__file__))

    def opening(self, texts: Texts, environment: Mapping[str, str], given: Mapping[str, Secret]) -> bytes:
        """Return the first line of that command's input: the request for `remote_helper`."""
        request = {
            "program": self.program,
            "texts": texts,
            "environment": dict(environment),
            "secrets": {name: {"value": one.value, "delivery": one.delivery} for name, one in given.items()},
        }
        return json.dumps({"ssh": self.ssh, "python": self.python, "request": request}).encode() + b"\n"


def helper_texts(major: int) -> Texts:
    """Return the source texts that run there: the last one as the program, those before it as modules."""
    files = (HELPER,) if major == 1 else (HELPER, HELPER_2)
    return [(file.stem, file.read_text()) for file in files]


def selftest_texts() -> Texts:
    return [("selftest_repository", SELFTEST_REPOSITORY.read_text())]


def fingerprint(about: Any) -> str:
    """Given a machine's report on its engine's program, return a fingerprint of that program and of our helper.

    A verdict is valid for one fingerprint. Raise ValueError with the machine's reason if its engine has no Python.
    """
    told = about if isinstance(about, dict) else {}
    program = str(told.get("program") or "")
    if not program:
        raise ValueError(str(told.get("problem") or "the machine does not name the engine's program")[:1000])
    files = (HELPER, HELPER_2, Path(remote_helper.__file__))
    known = hashlib.sha256(b"".join(file.read_bytes() for file in files))
    known.update(program.encode("utf-8", "surrogateescape"))
    return known.hexdigest()[:32]
