"""A round of all alarms over 10,000 repositories: if all is well, if a tenth is overdue, and if everything is."""

import time
from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import insert, update

from bench.report import Bench, Measurement, Options
from bench.running import folder, settings_for
from bench.timing import milliseconds, percentile
from holdfast.alarms import store
from holdfast.alarms.evaluate import Rounds
from holdfast.archives.constant_rules import ConstantRules
from holdfast.kit import clock
from holdfast.repositories.models import Repository
from holdfast.schedules.overdue_rules import ScheduleRules
from holdfast.storage.migrate import migrate
from holdfast.storage.session import Database
from tests.support.evidence import repository_values

REPOSITORIES = 10_000
LIMIT_MILLISECONDS = 200.0


def run(options: Options) -> list[Measurement]:
    with folder() as place, settings_for(place / "data", options.store) as settings:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        database = Database(settings.store_url)
        migrate(database)
        fill(database)
        rounds = Rounds(database, ScheduleRules(ConstantRules()))
        repeats = options.repeats(20)

        def one() -> None:
            with database.writing() as session:
                store.keep_measurements(session)
            rounds.run(clock.now())

        found = [measured("all is well", one, repeats, LIMIT_MILLISECONDS)]
        make_late(database, REPOSITORIES // 10)
        found.append(measured("1,000 overdue: the round that raises them", one, 1, None))
        found.append(measured("1,000 overdue: every further round", one, repeats, LIMIT_MILLISECONDS))
        make_late(database, REPOSITORIES)
        found.append(measured("all overdue: the round that raises them", one, 1, None))
        found.append(measured("all overdue: every further round", one, repeats, None))
        database.dispose()
    return found


def measured(what: str, call: Callable[[], None], repeats: int, limit: float | None) -> Measurement:
    call()
    times, used = [], []
    for _ in range(repeats):
        began, before = time.perf_counter(), time.process_time()
        call()
        times.append(time.perf_counter() - began)
        used.append(time.process_time() - before)
    note = f"processor {milliseconds(percentile(used, 50)):.0f} ms"
    return Measurement(f"{what}, median", milliseconds(percentile(times, 50)), "ms", limit, note)


def fill(database: Database) -> None:
    now = clock.now()
    fresh = {
        **dict.fromkeys(("last_backup", "last_check", "last_mirror", "last_restore_check", "storage_seen_at"), now),
        "created_at": now - timedelta(days=100),
        "key_exported_at": now,
        "encryption": "repokey-blake2",
        "storage_free_bytes": 5 * 10**11,
        "storage_total_bytes": 10**12,
    }
    rows = [repository_values(one, **fresh) for one in range(1, REPOSITORIES + 1)]
    with database.writing() as session:
        for first in range(0, len(rows), 500):
            session.execute(insert(Repository), rows[first : first + 500])


def make_late(database: Database, number: int) -> None:
    with database.writing() as session:
        late = update(Repository).where(Repository.id <= number).values(last_backup=clock.now() - timedelta(days=8))
        session.execute(late.execution_options(synchronize_session=False))


BENCH = Bench("a round of alarms over 10,000 repositories: ≤ 200 ms", run)
