"""While the history of a large archive is being indexed: how soon a backup of another repository starts, and how long
reads take.
"""

import os
import random
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.report import Bench, Measurement, Options
from bench.running import folder, serving, settings_for, signed_in
from bench.timing import milliseconds, percentile
from tests.support.engines import ENGINES
from tests.support.service import Client

FILES, QUICK_FILES = 300_000, 20_000
FILES_PER_DIRECTORY = 200
START_MILLISECONDS = 200.0
READ_MILLISECONDS = 100.0
BACKUPS = 20
DEADLINE_SECONDS = 3600.0


def run(options: Options) -> list[Measurement]:
    files = QUICK_FILES if options.quick else FILES
    os.environ["HOLDFAST_BORG1"] = str(ENGINES["1.4"])
    with folder() as place, settings_for(place / "data", options.store) as settings, serving(settings) as service:
        admin = signed_in(service)
        large = _repository(admin, place, "large", files)
        small = _repository(admin, place, "small", 50)
        ingest = _start_ingest(admin, large)
        beside = _Beside(admin, large, small, ingest)
        beside.watch()
        ended = admin.wait_for_end(ingest, DEADLINE_SECONDS)
    return beside.measurements(files, ended)


def _repository(admin: Client, place: Path, name: str, files: int) -> dict[str, Any]:
    source = place / f"source-{name}"
    chance = random.Random(files)
    for number in range(files):
        folder = source / f"d{number // FILES_PER_DIRECTORY}"
        if number % FILES_PER_DIRECTORY == 0:
            folder.mkdir(parents=True)
        (folder / f"file-{number}").write_bytes(chance.randbytes(20))
    made = admin.create_repository(place / name, [source], encryption="none", passphrase=None, index_mode="off")
    assert admin.wait_for_end(admin.start_backup(made), DEADLINE_SECONDS)["status"] == "completed"
    return made


def _start_ingest(admin: Client, repository: dict[str, Any]) -> int:
    """Turn on the file history of an existing archive; return the operation that reads it, once it is running."""
    answer = admin.put(f"/api/repositories/{repository['id']}", json={"index_mode": "full"})
    assert answer.status_code == 200, answer.text
    while True:
        listed = admin.get("/api/operations/", params={"kind": "history", "repository_id": repository["id"]}).json()
        for operation in listed["items"]:
            if operation["status"] == "running":
                number: int = operation["id"]
                return number
        time.sleep(0.02)


class _Beside:
    def __init__(self, admin: Client, large: dict[str, Any], small: dict[str, Any], ingest: int) -> None:
        self._admin = admin
        self._small = small
        self._ingest = ingest
        self._starts: list[float] = []
        self._reads: list[float] = []
        place = f"/api/repositories/{large['id']}"
        self._asked = (
            "/api/operations/?limit=20",
            "/api/operations/queue",
            "/api/activity/recent?limit=20",
            f"{place}/archives",
            f"{place}/search?q=file-1",
            f"/api/repositories/{small['id']}/archives",
        )

    def watch(self) -> None:
        """Run backups and reads, one after the other, until the indexing ends."""
        self._ask_all()  # what is built on first use should not be measured
        self._reads.clear()
        while self._is_running() and len(self._starts) < BACKUPS:
            ended = self._admin.wait_for_end(self._backup_with_reads())
            assert ended["status"] == "completed", ended
            if self._is_running():
                self._starts.append(_seconds(ended["created_at"], ended["started_at"]))

    def _backup_with_reads(self) -> int:
        started = self._admin.start_backup(self._small)
        self._ask_all()
        return started

    def _ask_all(self) -> None:
        for address in self._asked:
            began = time.perf_counter()
            answer = self._admin.get(address)
            self._reads.append(time.perf_counter() - began)
            assert answer.status_code == 200, answer.text

    def _is_running(self) -> bool:
        return str(self._admin.operation(self._ingest)["status"]) == "running"

    def measurements(self, files: int, ended: dict[str, Any]) -> list[Measurement]:
        assert ended["status"] == "completed", ended
        beside = f"{files:,} files being indexed by {', '.join(ended['result']['routes'])}"
        return list(_told(self._starts, self._reads, beside))


def _told(starts: list[float], reads: list[float], beside: str) -> Iterator[Measurement]:
    if not starts:
        yield Measurement("backups that started while an archive was indexed", 0, "", None, "the archive was too small")
        return
    yield Measurement(
        "slowest start of a backup of another repository",
        milliseconds(max(starts)),
        "ms",
        START_MILLISECONDS,
        f"median {milliseconds(percentile(starts, 50)):.0f} ms of {len(starts)}; {beside}",
    )
    yield Measurement(
        "slowest read",
        milliseconds(max(reads)),
        "ms",
        READ_MILLISECONDS,
        f"median {milliseconds(percentile(reads, 50)):.0f} ms of {len(reads)}",
    )


def _seconds(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


BENCH = Bench("a backup starts within 200 ms and no read waits 100 ms while another archive is indexed", run)
