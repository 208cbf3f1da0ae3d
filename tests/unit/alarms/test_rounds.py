"""Rounds: one a minute across any number of processes, one alarm per kind and subject, and harmless hostile names."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError

from holdfast.alarms import store
from holdfast.alarms.evaluate import LAST_ROUND, Rounds
from holdfast.alarms.models import Alarm, StorageDay
from holdfast.alarms.present import items
from holdfast.archives.constant_rules import ConstantRules
from holdfast.kit import clock
from holdfast.operations import limits
from holdfast.operations.models import OutboxEntry
from holdfast.storage.session import Database
from tests.support.evidence import add_repository
from tests.support.stores import KINDS, a_store_url
from tests.unit.metrics.test_exposition import HOSTILE

LATE = timedelta(days=10)
PROCESS = """
import sys
from holdfast.alarms.evaluate import Rounds
from holdfast.archives.constant_rules import ConstantRules
from holdfast.storage.session import Database
import holdfast.composition
database = Database(sys.argv[1])
rounds = Rounds(database, ConstantRules())
sys.stdin.readline()
print(sum(rounds.run_if_due() for _ in range(20)))
"""


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with a_store_url(request.param, tmp_path) as found:
        yield found


def test_two_processes_run_one_round_a_minute_and_raise_each_alarm_once(url: str) -> None:
    database = Database(url)
    with database.writing() as session:
        for _ in range(5):
            add_repository(session, created_at=clock.now() - LATE)
    processes = [
        subprocess.Popen([sys.executable, "-c", PROCESS, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    began = int(clock.now().timestamp()) // 60
    made = [process.communicate("go\n", timeout=120)[0] for process in processes]
    minutes = int(clock.now().timestamp()) // 60 - began + 1

    assert all(process.returncode == 0 for process in processes)
    assert 1 <= sum(map(int, made)) <= minutes
    with database.reading() as session:
        raised = session.scalar(select(func.count()).where(OutboxEntry.topic == "alarm.raised"))
        alarms = session.scalar(select(func.count()).select_from(Alarm))
    database.dispose()
    assert raised == alarms == 10, "backup_overdue and schedule_missing of each repository, once"


def test_many_threads_run_one_round_a_minute(database: Database) -> None:
    rounds = Rounds(database, ConstantRules())
    ran: list[bool] = []
    threads = [threading.Thread(target=lambda: ran.append(rounds.run_if_due())) for _ in range(6)]
    began = int(clock.now().timestamp()) // 60
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 1 <= sum(ran) <= int(clock.now().timestamp()) // 60 - began + 1


def test_a_round_overtaken_by_a_later_one_changes_nothing(database: Database) -> None:
    rounds = Rounds(database, ConstantRules())
    with database.writing() as session:
        add_repository(session, created_at=clock.now() - LATE)
        limits.put(session, LAST_ROUND, 7)
    rounds.run(clock.now(), minute=6)
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Alarm)) == 0
    rounds.run(clock.now(), minute=7)
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Alarm)) == 2


def test_a_clock_that_was_set_back_does_not_stop_the_rounds(database: Database) -> None:
    rounds = Rounds(database, ConstantRules())
    with database.writing() as session:
        limits.put(session, LAST_ROUND, int(clock.now().timestamp()) // 60 + 60 * 24 * 365)

    assert rounds.run_if_due()


def test_the_store_refuses_a_second_open_alarm_of_one_kind_and_subject(database: Database) -> None:
    now = clock.now()

    def alarm(state: str) -> Alarm:
        return Alarm(
            kind="damaged",
            subject="repository:1",
            severity="critical",
            state=state,
            since=now,
            seen_at=now,
            known=True,
            evidence={},
        )

    with database.writing() as session:
        session.add_all([alarm("cleared"), alarm("cleared"), alarm("open")])
    with pytest.raises(IntegrityError), database.writing() as session:
        session.add(alarm("watched"))


def test_hostile_names_stay_on_their_line(database: Database) -> None:
    with database.writing() as session:
        for name in HOSTILE:
            if "\0" not in name:
                add_repository(session, name=name[:190] or "empty", created_at=clock.now() - LATE)
    Rounds(database, ConstantRules()).run(clock.now())
    with database.reading() as session:
        shown = items(session, list(session.scalars(select(Alarm))), clock.now())
        payloads = [row.payload for row in session.scalars(select(OutboxEntry))]

    assert len(shown) == 2 * (len(HOSTILE) - 1)
    for message in [*(one.message for one in shown), *(payload["message"] for payload in payloads)]:
        assert message.isprintable(), message
        assert len(message) < 500
    json.dumps(payloads)


def test_old_cleared_alarms_and_old_measurements_are_removed_and_recent_ones_stay(database: Database) -> None:
    now, day = clock.now(), timedelta(days=1)
    rounds = Rounds(database, ConstantRules())
    with database.writing() as session:
        repositories = [add_repository(session, created_at=now - LATE).id for _ in range(3)]
    rounds.run(now)
    cleared = dict(zip(repositories, (now - store.KEPT - day, now - store.KEPT + day, None), strict=True))
    measured = [now - store.MEASURED_FOR - 2 * day, now - store.MEASURED_FOR + day, now]
    with database.writing() as session:
        for alarm in session.scalars(select(Alarm)):
            if (cleared_at := cleared[alarm.repository_id or 0]) is not None:
                alarm.state, alarm.cleared_at = "cleared", cleared_at
        for at in measured:
            session.add(StorageDay(repository_id=repositories[0], day=at.date(), seen_at=at, free_bytes=1))
    rounds.tidy()

    with database.reading() as session:
        assert set(session.scalars(select(Alarm.repository_id))) == set(repositories[1:])
        assert session.scalars(select(StorageDay.day).order_by(StorageDay.day)).all() == [
            at.date() for at in measured[1:]
        ]
