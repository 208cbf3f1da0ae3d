"""Clients that resume with Last-Event-ID while six threads write: no event is lost or sent twice."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.kit.supervisor import Supervisor
from holdfast.operations.events import EventHub, Subscriber, stream
from holdfast.operations.models import OutboxEntry
from holdfast.operations.present import Presenter
from holdfast.operations.readers import Horizon
from holdfast.settings import Settings
from holdfast.storage.session import Database
from tests.support.service import PATIENCE, wait_until
from tests.support.stores import a_store
from tests.unit.operations.kernel import REGISTRY
from tests.unit.operations.test_readers import ids, tell, writers

ADMIN = Caller(1, "admin", Role.ADMIN, None, None, None, must_change_password=False, address=None)
ROWS = [pytest.param(1_000, id="a thousand"), pytest.param(100_000, id="hundred-thousand", marks=pytest.mark.campaign)]


@pytest.fixture
def hub(database: Database, tmp_path: Path) -> Iterator[EventHub]:
    yield from a_hub(database, tmp_path)


@pytest.fixture
def postgresql(tmp_path: Path) -> Iterator[Database]:
    with a_store("postgresql", tmp_path) as database:
        yield database


def a_hub(database: Database, folder: Path) -> Iterator[EventHub]:
    """A hub that does not check logins: the clients of these tests have none."""
    supervisor = Supervisor()
    made = EventHub(Settings(data_dir=folder), database, Presenter(REGISTRY, folder), supervisor, Horizon(database))
    supervisor.keep_running("events", made._read_forever)
    yield made
    supervisor.stop()
    made.stop()


async def take(hub: EventHub, after: int | None, most: int, seconds: float = PATIENCE) -> list[tuple[str, int]]:
    """Connect, read this number of stored events, and disconnect."""
    subscriber = Subscriber(ADMIN, None, sees_unbound=True, loop=asyncio.get_running_loop())
    taken: list[tuple[str, int]] = []
    lines = stream(hub, subscriber, after)
    try:
        async with asyncio.timeout(seconds):
            while len(taken) < most:
                fields: dict[str, Any] = dict(
                    line.split(": ", 1) for line in (await anext(lines)).splitlines() if ": " in line
                )
                if "id" in fields and fields["event"] != "hello":
                    taken.append((fields["event"], int(fields["id"])))
    except TimeoutError:
        pass
    finally:
        await lines.aclose()  # type: ignore[attr-defined]
    return taken


def told(hub: EventHub, database: Database, times: int) -> list[int]:
    """Publish events and wait until their order is certain: background work of the store may delay that."""
    for _ in range(times):
        tell(database)
    known = ids(database)
    wait_until(lambda: hub._horizon.refresh() == known[-1], what="the order of all events is certain")
    return known


@pytest.mark.parametrize("rows", ROWS)
def test_a_client_that_resumes_under_six_writers_gets_each_event_once_and_in_order(
    postgresql: Database, tmp_path: Path, rows: int
) -> None:
    chance = random.Random(1)
    tell(postgresql)
    first = ids(postgresql)[0]

    async def follow(hub: EventHub, done: Any) -> list[int]:
        seen = [first]
        while not done.is_set() or seen[-1] < (await asyncio.to_thread(ids, postgresql))[-1]:
            for topic, number in await take(hub, seen[-1], chance.randint(1, 60), seconds=3):
                assert topic == "test"
                seen.append(number)
        return seen

    for hub in a_hub(postgresql, tmp_path):
        with writers(postgresql, rows, postgresql) as done:
            seen = asyncio.run(follow(hub, done))

    assert seen == ids(postgresql)
    assert len(seen) > rows * 0.8


def test_a_client_whose_last_event_was_deleted_gets_a_reset(database: Database, hub: EventHub) -> None:
    known = told(hub, database, 3)
    with database.writing() as session:
        session.execute(delete(OutboxEntry).where(OutboxEntry.id < known[-1]))

    assert asyncio.run(take(hub, known[0], 1)) == [("reset", known[-1])]
    known += told(hub, database, 1)[-1:]
    assert asyncio.run(take(hub, known[1], 1)) == [("test", known[2])], "nothing is missing between"


def test_a_client_with_an_id_from_the_future_gets_a_reset(database: Database, hub: EventHub) -> None:
    """It followed another store, or this one before a restore: waiting for its id would lose all events until then."""
    known = told(hub, database, 1)

    assert asyncio.run(take(hub, 1_000_000, 1)) == [("reset", known[-1])]


def test_a_client_that_starts_before_the_first_event_gets_all_events(database: Database, hub: EventHub) -> None:
    tell(database)
    tell(database)

    assert [number for _, number in asyncio.run(take(hub, 0, 2))] == ids(database)
