"""`/metrics` on a store with a long past, generated afresh, as for the first scrape after ten seconds."""

import time

from sqlalchemy import insert

from bench.filling import REPOSITORIES, fill, prepare
from bench.report import Bench, Measurement, Options
from bench.running import folder, settings_for
from bench.timing import milliseconds, percentile
from holdfast.archives.constant_rules import ConstantRules
from holdfast.kit import clock
from holdfast.metrics.scrape import Metrics
from holdfast.repositories.models import Repository
from holdfast.storage.session import Database
from tests.support.evidence import repository_values

WANTED_REPOSITORIES = 1000
LIMIT_MILLISECONDS = 50.0


def run(options: Options) -> list[Measurement]:
    with folder() as place, settings_for(place / "data", options.store) as settings:
        database = prepare(settings)
        past = fill(database, options.rows())
        add_repositories(database, WANTED_REPOSITORIES - REPOSITORIES)
        metrics = Metrics(database, 2000, ConstantRules())
        lines = metrics.make().count("\n")
        times = []
        for _ in range(options.repeats(50)):
            began = time.perf_counter()
            metrics.make()
            times.append(time.perf_counter() - began)
        database.dispose()
    note = f"{past.rows:,} operations, {WANTED_REPOSITORIES:,} repositories, {lines:,} lines"
    return [
        Measurement("/metrics, median", milliseconds(percentile(times, 50)), "ms", LIMIT_MILLISECONDS, note),
        Measurement("/metrics, p99", milliseconds(percentile(times, 99)), "ms"),
    ]


def add_repositories(database: Database, number: int) -> None:
    now = clock.now()
    done = dict.fromkeys(("last_backup", "last_check", "last_prune", "last_compact", "last_index"), now)
    sizes = {"unique_size": 10**9, "archive_count": 30, "storage_free_bytes": 10**12, "storage_total_bytes": 10**13}
    rows = [repository_values(10_000 + one, **done, **sizes) for one in range(number)]
    with database.writing() as session:
        for first in range(0, len(rows), 500):
            session.execute(insert(Repository), rows[first : first + 500])


BENCH = Bench("/metrics with 1,000 repositories and 1,000,000 operations: ≤ 50 ms cold", run)
