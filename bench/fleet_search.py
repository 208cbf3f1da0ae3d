"""Search over all repositories: 1,000 indexes of 3,000 paths each, queried over HTTP for common, rare and missing
names.
"""

import http.client
import json
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import insert

from bench.filling import repository_row
from bench.history_support.synthetic import SyntheticArchives
from bench.report import Bench, Measurement, Options
from bench.running import folder, pid_of, serving, settings_for, signed_in
from bench.timing import Sample, milliseconds, percentile, processor_seconds
from holdfast.access.first_admin import ensure_first_admin
from holdfast.archives.fleet_names_updater import FleetNamesUpdater
from holdfast.archives.history_stage import trust_only
from holdfast.archives.indexes import Indexes, indexes_for
from holdfast.composition import register_secrets
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository
from holdfast.settings import Settings
from holdfast.storage.migrate import migrate
from holdfast.storage.session import Database
from tests.support.service import Client, ServiceProcess

REPOSITORIES, QUICK_REPOSITORIES, PATHS = 1000, 100, 3000
QUESTIONS = 100
PROCESSES = 2
P95_MILLISECONDS = 100.0
SECONDS = 600.0
PAGE = 50


def run(options: Options) -> list[Measurement]:
    count = QUICK_REPOSITORIES if options.quick else REPOSITORIES
    with folder() as place, settings_for(place / "data", options.store) as settings:
        began = time.monotonic()
        samples = _fill(settings, count)
        built = time.monotonic() - began
        fed = _feed(settings)
        with serving(settings) as service:
            asking = _Asking(service, signed_in(service))
            return [
                Measurement(f"fleet_search: making {count:,} indexes of {PATHS:,} paths", built, "s"),
                *fed,
                *_asked(asking, "a common name", _common(), options),
                *_asked(asking, "a name of one repository", _rare(samples), options),
                *_asked(asking, "a name that nothing has", _missing(), options),
                *_asked(asking, "a name in a folder", _in_folders(samples), options),
                *_histories(asking, samples, options),
                Measurement("fleet_search: memory of the service", asking.memory(), "MB"),
            ]


def _fill(settings: Settings, count: int) -> dict[int, list[str]]:
    """Create a store with `count` repositories of one indexed archive each. Return some paths of each."""
    register_secrets()
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    database = Database(settings.store_url)
    migrate(database)
    ensure_first_admin(database, settings)
    numbers = range(1, count + 1)
    with database.writing() as session:
        session.execute(insert(Repository), [_repository(number) for number in numbers])
        session.execute(insert(Archive), [_archive(number) for number in numbers])
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as workers:
        parts = [(settings, numbers[start :: PROCESSES * 10]) for start in range(PROCESSES * 10)]
        samples = {number: paths for part in workers.map(_index_each, parts) for number, paths in part.items()}
    indexes = indexes_for(settings)
    with database.writing() as session:
        for number in numbers:
            index = indexes.reading(_uuid(number))
            assert index is not None
            trust_only(session, session.get_one(Repository, number), index)
    indexes.close()
    database.dispose()
    return samples


def _index_each(part: tuple[Settings, Sequence[int]]) -> dict[int, list[str]]:
    settings, numbers = part
    indexes = indexes_for(settings)
    try:
        return {number: _index(indexes, number) for number in numbers}
    finally:
        indexes.close()


def _index(indexes: Indexes, number: int) -> list[str]:
    source = SyntheticArchives(PATHS, seed=number)
    source.archive("first")
    indexes.writing(_uuid(number)).ingest_chunks("first", source, series="series")
    found = [f"{one.path}/{name}" for one in source.directories for name in one.names]
    return random.Random(number).sample(found, 3)


def _feed(settings: Settings) -> list[Measurement]:
    """Read the names of all repositories, as the service does by itself after an upgrade."""
    database, indexes = Database(settings.store_url), indexes_for(settings)
    folder = settings.data_dir / "history"
    began = time.process_time()
    FleetNamesUpdater(folder, indexes).catch_up(database)
    used = time.process_time() - began
    indexes.close()
    database.dispose()
    size = sum(part.stat().st_size for part in folder.glob("fleet-names.db*")) / 2**20
    return [
        Measurement("fleet_search: reading all names for the first time, processor", used, "s", None, f"{size:.0f} MB")
    ]


def _uuid(number: int) -> str:
    return f"{number:032x}"


def _repository(number: int) -> dict[str, object]:
    later = datetime.now(UTC) + timedelta(days=1)
    return {**repository_row(number), "index_mode": "full", "archive_count": 1, "last_synced": later}


def _archive(number: int) -> dict[str, object]:
    now = datetime.now(UTC)
    return {
        "repository_id": number,
        "engine_id": "first",
        "name": "first",
        "series": "series",
        "start": now,
        "history_state": "indexed",
        "history_indexed_at": now,
        "history_rows": PATHS,
        "history_truncated": False,
        "history_attempts": 0,
        "first_seen_at": now,
        "last_seen_at": now,
    }


class _Asking:
    """One connection that stays open, like a browser's."""

    def __init__(self, service: ServiceProcess, admin: Client) -> None:
        self._headers = {"X-Backup-Authorization": admin.headers["X-Backup-Authorization"]}
        self._connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=SECONDS)
        self._pid = pid_of(service)
        self._used = processor_seconds(self._pid)

    def ask(self, route: str, **params: Any) -> tuple[float, float, dict[str, Any]]:
        """Wall seconds, processor seconds of the service, and the answer."""
        before, began = self._used(), time.perf_counter()
        self._connection.request("GET", f"/api/{route}?{urlencode(params)}", headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        wall = time.perf_counter() - began
        assert answer.status == 200, body
        return wall, self._used() - before, json.loads(body)

    def memory(self) -> float:
        with open(f"/proc/{self._pid}/status") as file:
            line = next(line for line in file if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024


def _common() -> Iterator[str]:
    generator = random.Random(1)
    while True:
        yield generator.choice(["readme", "package.json", "makefile", "index.js", "license", "main.c", "inv", "photo"])


def _rare(samples: dict[int, list[str]]) -> Iterator[str]:
    """Names with a number, which few repositories have, mostly one."""
    generator = random.Random(2)
    names = [path.rpartition("/")[2] for found in samples.values() for path in found]
    serial = [name for name in names if "_" in name and "-" in name]
    while True:
        yield generator.choice(serial)


def _missing() -> Iterator[str]:
    generator = random.Random(3)
    while True:
        yield f"quarterly{generator.randrange(10**6)}.xlsx"


def _in_folders(samples: dict[int, list[str]]) -> Iterator[str]:
    generator = random.Random(4)
    while True:
        path = generator.choice(samples[generator.randrange(1, len(samples) + 1)])
        yield "/".join(path.split("/")[-2:])


def _asked(asking: _Asking, what: str, names: Iterator[str], options: Options) -> list[Measurement]:
    sample, cpu, hits, unfinished = Sample(), [], 0, 0
    asking.ask("search", q=next(names), limit=PAGE)
    for _ in range(options.repeats(QUESTIONS)):
        wall, used, answer = asking.ask("search", q=next(names), limit=PAGE)
        sample.wall.append(milliseconds(wall))
        cpu.append(milliseconds(used))
        hits += len(answer["results"])
        unfinished += len(answer["results"]) < PAGE and answer["next_cursor"] is not None
    return _told(f"fleet_search: {what}", sample.wall, cpu, f"{hits / len(cpu):.1f} hits; {unfinished} pages short")


def _histories(asking: _Asking, samples: dict[int, list[str]], options: Options) -> list[Measurement]:
    generator = random.Random(5)
    wall, cpu = [], []
    for _ in range(options.repeats(QUESTIONS)):
        path = generator.choice(samples[generator.randrange(1, len(samples) + 1)])
        took, used, answer = asking.ask("history", path=path)
        assert answer["repositories"] or answer["next_cursor"], answer
        wall.append(milliseconds(took))
        cpu.append(milliseconds(used))
    return _told("fleet_search: history of a path", wall, cpu, "")


def _told(what: str, wall: list[float], cpu: list[float], note: str) -> list[Measurement]:
    return [
        Measurement(f"{what}, 95th percentile", percentile(wall, 95), "ms", P95_MILLISECONDS, note),
        Measurement(f"{what}, median", percentile(wall, 50), "ms"),
        Measurement(
            f"{what}, processor, 95th percentile", percentile(cpu, 95), "ms", None, f"median {percentile(cpu, 50):.1f}"
        ),
    ]


BENCH = Bench("a page of a search over 1,000 repositories comes in 100 ms, 95 times of 100", run)
