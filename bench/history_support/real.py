"""A real repository of many small files with its archives, and what reading them costs."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

FILES_PER_DIRECTORY = 100


@dataclass(frozen=True)
class Cost:
    wall: float
    cpu: float  # of the process and everything it started
    peak_bytes: int  # of the largest of them
    output: bytes


def run(command: Sequence[str], environment: dict[str, str], *, keep: bool = False) -> Cost:
    """Run a command to its end and return what it cost. Its output is kept or discarded."""
    began = time.monotonic()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE if keep else subprocess.DEVNULL) as process:
        output = process.stdout.read() if process.stdout else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - began
    if process.returncode != 0:
        raise RuntimeError(f"{command[:3]} ended with {process.returncode}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, output)


class RealArchives:
    """A tree of small files and four archives of it: base, same, clustered, random."""

    def __init__(self, program: Path, folder: Path, files: int) -> None:
        self.program = program
        self.folder = folder
        self.repository = str(folder / "repository")
        self._tree = folder / "tree"
        self._count = files
        self._rng = random.Random(7)
        self.environment = {
            **os.environ,
            "BORG_BASE_DIR": str(folder / "base"),
            "BORG_PASSPHRASE": "bench",
            "BORG_SELFTEST": "disabled",
            "TZ": "UTC",
            "LANG": "C.UTF-8",
        }
        self.ids: dict[str, str] = {}

    def build(self) -> None:
        self._plant()
        self._borg("init", "--encryption", "repokey-blake2", self.repository)
        self._create("base")
        self._create("same")
        self._rewrite(self._clustered())
        self._create("clustered")
        self._rewrite(self._rng.sample(range(self._count), max(1, self._count // 100)))
        self._create("random")
        listed = json.loads(self._borg("list", "--json", self.repository).output)
        self.ids = {archive["name"]: archive["id"] for archive in listed["archives"]}

    def list_json_lines(self, name: str) -> Cost:
        return run([str(self.program), "list", "--json-lines", f"{self.repository}::{name}"], self.environment)

    def ingest(self, index: Path, name: str, route: str, base: str | None) -> Cost:
        wanted = {
            "index": str(index),
            "program": str(self.program),
            "repository": self.repository,
            "name": name,
            "engine_id": self.ids[name],
            "route": route,
            "base": self.ids[base] if base else None,
        }
        command = [sys.executable, "-m", "bench.history_support.ingest_once", json.dumps(wanted)]
        whole = run(command, self.environment, keep=True)
        inside = json.loads(whole.output)
        return replace(whole, wall=inside["wall"], cpu=inside["cpu"])

    def _path(self, number: int) -> Path:
        directory = number // FILES_PER_DIRECTORY
        return self._tree / f"t{directory // 400}" / f"s{directory // 20 % 20}" / f"d{directory % 20}" / f"file{number}"

    def _plant(self) -> None:
        for number in range(self._count):
            path = self._path(number)
            if number % FILES_PER_DIRECTORY == 0:
                path.parent.mkdir(parents=True)
            path.write_bytes(self._rng.randbytes(self._rng.randrange(200)))

    def _clustered(self) -> list[int]:
        directories = max(1, self._count // FILES_PER_DIRECTORY // 100)
        chosen = self._rng.sample(range(max(1, self._count // FILES_PER_DIRECTORY)), directories)
        return [directory * FILES_PER_DIRECTORY + place for directory in chosen for place in range(FILES_PER_DIRECTORY)]

    def _rewrite(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._path(number).write_bytes(self._rng.randbytes(1 + self._rng.randrange(200)))

    def _create(self, name: str) -> None:
        self._borg("create", "--files-cache", "mtime,size", f"{self.repository}::{name}", str(self._tree))

    def _borg(self, *arguments: str) -> Cost:
        return run([str(self.program), *arguments], self.environment, keep=True)
