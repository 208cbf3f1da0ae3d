"""A database dump through the feeder, compared with the same dump piped into the engine by a shell."""

import os
import resource
import shutil
import sqlite3
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from backup_engine.command import Command
from backup_engine.dumps import Database, feeding
from bench.report import Bench, Measurement, Options
from bench.running import folder
from tests.support.engines import ENGINES

LEAST_PERCENT = 90.0
ROWS = 300_000
SERIES = "1.4"


@dataclass(frozen=True, slots=True)
class Took:
    seconds: float
    processor: float


def run(options: Options) -> list[Measurement]:
    with folder() as place:
        runs = Runs(place, a_database(place, ROWS // 10 if options.quick else ROWS))
        bare, fed = [], []
        for number in range(options.repeats(7)):
            bare.append(runs.bare(number))
            fed.append(runs.fed(number))
        size = runs.size
    clock = 100 * median(one.seconds for one in bare) / median(one.seconds for one in fed)
    processor = 100 * median(one.processor for one in bare) / median(one.processor for one in fed)
    note = (
        f"{size / 1e6:.0f} MB: {median(one.seconds for one in fed):.2f} s instead of "
        f"{median(one.seconds for one in bare):.2f} s; processor {median(one.processor for one in fed):.2f} s "
        f"instead of {median(one.processor for one in bare):.2f} s ({processor:.0f} %)"
    )
    slower = Measurement("dumps: time that the feeder adds", 100 / clock * 100 - 100, "%", 1e4 / LEAST_PERCENT - 100)
    return [Measurement("dumps: speed through the feeder, of dump | borg create -", clock, "%", None, note), slower]


def a_database(place: Path, rows: int) -> Path:
    file = place / "app.db"
    connection = sqlite3.connect(file)
    with connection:
        connection.execute("CREATE TABLE letters (number INTEGER PRIMARY KEY, words TEXT)")
        connection.executemany(
            "INSERT INTO letters VALUES (?, hex(randomblob(180)))", ((number,) for number in range(rows))
        )
    connection.close()
    return file


class Runs:
    """Runs dumps, each into a new repository, so that the engine has the same work every time."""

    def __init__(self, place: Path, file: Path) -> None:
        self._place, self._file = place, file
        self._borg = str(ENGINES[SERIES])
        base = str(place / "base")
        self._environment = {
            **os.environ,
            "BORG_BASE_DIR": base,
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
        }
        self.size = 0

    def bare(self, number: int) -> Took:
        repository = self._new_repository(f"bare-{number}")
        sqlite = shutil.which("sqlite3") or "sqlite3"
        line = f"{sqlite} -batch -readonly {self._file} .dump | {self._borg} create {repository}::dump -"
        took = self._timed(["/bin/sh", "-c", line], self._place)
        shutil.rmtree(repository)
        return took

    def fed(self, number: int) -> Took:
        repository = self._new_repository(f"fed-{number}")
        spool = self._place / f"spool-{number}"
        spool.mkdir()
        (spool / "lock").touch()
        create = (self._borg, "create", "--read-special", f"{repository}::dump", "app.sql")
        command = feeding(Command(create), [Database("app", "sqlite", str(self._file))])
        took = self._timed(list(command.argv), spool)
        record = (spool / "dump-1.json").read_text()
        assert '"complete": true' in record, record
        self.size = int(record.split('"bytes": ')[1].split(",")[0])
        shutil.rmtree(repository)
        return took

    def _new_repository(self, name: str) -> Path:
        repository = self._place / name
        self._run(self._borg, "init", "--encryption", "none", str(repository))
        return repository

    def _timed(self, argv: list[str], directory: Path) -> Took:
        before, began = _children(), time.perf_counter()
        subprocess.run(argv, cwd=directory, env=self._environment, check=True, stdin=subprocess.DEVNULL)
        return Took(time.perf_counter() - began, _children() - before)

    def _run(self, *argv: str) -> None:
        subprocess.run(argv, env=self._environment, check=True, capture_output=True)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


BENCH = Bench("a dump through the feeder: at least 90 % of dump | borg create -", run)
