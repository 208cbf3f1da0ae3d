"""What is kept in memory: an idle fleet costs the store nothing, and a credential is cached for a second at most."""

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine
from sqlalchemy.orm import Session

from backup_protocol import AgentStatus
from holdfast.agents import credentials as credentials_module
from holdfast.agents import last_seen_times, store
from holdfast.agents.credentials import Credentials, KnownAgent, known_agent
from holdfast.agents.fleet import Fleet, Heartbeat
from holdfast.agents.heartbeat_batches import HeartbeatBatches
from holdfast.agents.models import AgentMachine
from holdfast.agents.schemas import HeartbeatBody
from holdfast.agents.work_cache import WorkCache
from holdfast.errors import Forbidden, Unauthenticated
from holdfast.kit.tokens import token_hash
from holdfast.operations.queue import claim_one
from holdfast.operations.transitions import remove_finished_inline
from holdfast.settings import Settings
from holdfast.storage.session import Database
from tests.support.service import PATIENCE
from tests.support.stores import statements
from tests.unit.operations.kernel import BACKUP, cancel, claim, enqueue

CREDENTIAL = "bk_agent_of_the_tests"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def add_agent(database: Database, credential: str = CREDENTIAL) -> KnownAgent:
    with database.writing() as session:
        agent = store.add(
            session,
            name="far",
            agent_id=token_hash(credential)[:32],
            token_hash=token_hash(credential),
            token_prefix="",
            hostname="far",
            os="linux",
            arch="x",
            agent_version="1",
            engine_versions=[],
            capabilities=["backup.create"],
        )
    return known_agent(agent)


def heartbeat(agent: KnownAgent, **more: object) -> HeartbeatBody:
    return HeartbeatBody.model_validate(
        {"agent_id": agent.agent_id, "hostname": "far", "agent_version": "1", "capabilities": ["backup.create"], **more}
    )


def hear(fleet: Fleet, *agents: KnownAgent) -> None:
    assert fleet.process([Heartbeat(agent, heartbeat(agent), NOON) for agent in agents]) == [None] * len(agents)


def read(database: Database, agent: KnownAgent) -> AgentMachine:
    with database.reading() as session:
        found = store.get(session, agent.id)
    assert found is not None
    return found


def stored_time(database: Database, agent: KnownAgent) -> datetime | None:
    """When an agent was last seen, as read by a process that has just started."""
    with database.reading() as session:
        return last_seen_times.latest((read(database, agent).last_seen_at, last_seen_times.one(session, agent.id)))


# --- heartbeats -----------------------------------------------------------------------------------------------------


@pytest.fixture
def fleet(sqlite: Database, tmp_path: Path) -> Fleet:
    with time_machine.travel(NOON - timedelta(hours=1), tick=False):
        return Fleet(Settings(data_dir=tmp_path), sqlite)


def test_unchanged_heartbeats_are_stored_once_a_minute(sqlite: Database, fleet: Fleet) -> None:
    agent = add_agent(sqlite)
    with time_machine.travel(NOON, tick=False):
        assert not fleet.note_unchanged(agent, heartbeat(agent), NOON)
        hear(fleet, agent)
    with statements(sqlite) as seen:
        for seconds in (5, 20, 35, 50):
            with time_machine.travel(NOON + timedelta(seconds=seconds), tick=False):
                assert fleet.note_unchanged(agent, heartbeat(agent), NOON + timedelta(seconds=seconds))
                fleet.store_seen()
    assert seen == []
    assert fleet.last_seen(read(sqlite, agent)) == NOON + timedelta(seconds=50)
    with time_machine.travel(NOON + timedelta(seconds=61), tick=False):
        fleet.store_seen()
    assert stored_time(sqlite, agent) == NOON + timedelta(seconds=50)


def test_many_agents_are_stored_together(database: Database, tmp_path: Path) -> None:
    fleet = Fleet(Settings(data_dir=tmp_path), database)
    agents = [add_agent(database, f"credential {number}") for number in range(5)]
    for number, agent in enumerate(agents):
        hear(fleet, agent)
        fleet.note_unchanged(agent, heartbeat(agent), NOON + timedelta(seconds=number + 1))
    with database.writing() as session:
        store.set_status(session, store.active(session, agents[0].id), AgentStatus.OFFLINE)
        store.set_status(session, store.active(session, agents[1].id), AgentStatus.REVOKED)

    fleet.store_seen(at_once=True)

    stored = [read(database, agent) for agent in agents]
    assert [agent.status for agent in stored] == ["online", "revoked", "online", "online", "online"]
    times = [stored_time(database, agent) for agent in agents]
    assert [(time - NOON).total_seconds() for time in times if time] == [1, 0, 3, 4, 5]


def test_a_changed_heartbeat_is_stored_immediately(sqlite: Database, fleet: Fleet) -> None:
    agent = add_agent(sqlite)
    hear(fleet, agent)

    assert not fleet.note_unchanged(agent, heartbeat(agent, agent_version="2"), NOON)
    assert not fleet.note_unchanged(agent, heartbeat(agent, capabilities=[]), NOON)
    assert fleet.note_unchanged(agent, heartbeat(agent), NOON)


def test_a_fleet_that_reconnects_to_a_restarted_service_writes_nothing(sqlite: Database, tmp_path: Path) -> None:
    agent = add_agent(sqlite)
    settings = Settings(data_dir=tmp_path)
    hear(Fleet(settings, sqlite), agent)
    restarted = Fleet(settings, sqlite)
    with statements(sqlite) as seen:
        assert not restarted.note_unchanged(agent, heartbeat(agent), NOON)
        hear(restarted, agent)
    assert [statement for statement in seen if not statement.startswith(("SELECT", "BEGIN"))] == []
    assert "BEGIN IMMEDIATE" not in seen
    assert restarted.note_unchanged(agent, heartbeat(agent), NOON)


def test_concurrent_heartbeats_are_stored_together_and_each_gets_its_own_response(
    database: Database, tmp_path: Path
) -> None:
    fleet = Fleet(Settings(data_dir=tmp_path), database)
    agents = [add_agent(database, f"credential {number}") for number in range(6)]
    with database.writing() as session:
        store.set_status(session, store.active(session, agents[2].id), AgentStatus.REVOKED)
        store.forget(session, store.active(session, agents[4].id))

    async def all_at_once() -> list[BaseException | None]:
        batches = HeartbeatBatches(fleet)
        calls = [batches.process(Heartbeat(agent, heartbeat(agent), NOON)) for agent in agents]
        return await asyncio.gather(*calls, return_exceptions=True)

    with statements(database) as seen:
        answers = asyncio.run(all_at_once())

    assert [type(answer) for answer in answers if answer] == [Forbidden, Unauthenticated]
    assert [bool(answer) for answer in answers] == [False, False, True, False, True, False]
    assert len([statement for statement in seen if statement.startswith("SELECT")]) <= 4
    assert {read(database, agents[place]).status for place in (0, 1, 3, 5)} == {AgentStatus.ONLINE}


def test_a_heartbeat_that_cannot_be_stored_does_not_affect_the_others(
    sqlite: Database, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = add_agent(sqlite), add_agent(sqlite, "another")
    write = Fleet._write

    def broken(self: Fleet, session: Session, heard: Mapping[AgentMachine, Heartbeat]) -> None:
        if any(machine.id == bad.id for machine in heard):
            raise ZeroDivisionError
        write(self, session, heard)

    monkeypatch.setattr(Fleet, "_write", broken)

    async def both() -> list[BaseException | None]:
        batches = HeartbeatBatches(fleet)
        calls = [batches.process(Heartbeat(agent, heartbeat(agent), NOON)) for agent in (bad, good)]
        return await asyncio.gather(*calls, return_exceptions=True)

    refused, taken = asyncio.run(both())

    assert isinstance(refused, ZeroDivisionError)
    assert taken is None
    assert read(sqlite, good).status == AgentStatus.ONLINE


def test_silence_is_judged_by_the_latest_heartbeat(sqlite: Database, fleet: Fleet) -> None:
    talking, silent = add_agent(sqlite), add_agent(sqlite, "another")
    with time_machine.travel(NOON, tick=False):
        for agent in (talking, silent):
            hear(fleet, agent)
    later = NOON + timedelta(seconds=121)
    fleet.note_unchanged(talking, heartbeat(talking), later - timedelta(seconds=30))
    with time_machine.travel(later, tick=False):
        fleet.find_silent()

    assert read(sqlite, talking).status == AgentStatus.ONLINE
    assert read(sqlite, silent).status == AgentStatus.OFFLINE
    assert not fleet.note_unchanged(silent, heartbeat(silent), later), "its return is a change of state"


def test_a_service_that_has_just_started_considers_no_agent_silent(sqlite: Database, tmp_path: Path) -> None:
    agent = add_agent(sqlite)
    with time_machine.travel(NOON, tick=False):
        hear(Fleet(Settings(data_dir=tmp_path), sqlite), agent)
    much_later = NOON + timedelta(hours=5)
    with time_machine.travel(much_later, tick=False):
        restarted = Fleet(Settings(data_dir=tmp_path), sqlite)
        restarted.find_silent()
    assert read(sqlite, agent).status == AgentStatus.ONLINE
    with time_machine.travel(much_later + timedelta(seconds=121), tick=False):
        restarted.find_silent()
    assert read(sqlite, agent).status == AgentStatus.OFFLINE


def test_a_revoked_agent_cannot_come_back_by_a_heartbeat(sqlite: Database, fleet: Fleet) -> None:
    agent = add_agent(sqlite)
    hear(fleet, agent)
    fleet.note_unchanged(agent, heartbeat(agent), NOON + timedelta(seconds=5))
    with sqlite.writing() as session:
        store.set_status(session, store.active(session, agent.id), AgentStatus.REVOKED)

    fleet.store_seen(at_once=True)
    (refused,) = fleet.process([Heartbeat(agent, heartbeat(agent, agent_version="2"), NOON)])
    assert isinstance(refused, Forbidden)

    assert read(sqlite, agent).status == AgentStatus.REVOKED


# --- credentials ----------------------------------------------------------------------------------------------------


def test_a_cached_credential_needs_no_statement(sqlite: Database) -> None:
    add_agent(sqlite)
    credentials = Credentials(sqlite)
    found = credentials.find(CREDENTIAL)
    with statements(sqlite) as seen:
        assert credentials.cached(CREDENTIAL) == found
    assert seen == []


def test_a_change_in_another_process_is_seen_at_the_next_check(database: Database) -> None:
    agent = add_agent(database)
    here, there = Credentials(database), database
    here.find(CREDENTIAL)
    with there.writing() as session:
        store.set_status(session, store.active(session, agent.id), AgentStatus.REVOKED)
        store.next_generation(session)

    here.check()

    assert here.cached(CREDENTIAL) is None
    assert here.find(CREDENTIAL).status == AgentStatus.REVOKED


def test_a_cached_credential_that_was_not_checked_in_time_is_not_used(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_agent(sqlite)
    credentials = Credentials(sqlite)
    credentials.find(CREDENTIAL)
    later = time.monotonic() + credentials_module.OLDEST_SECONDS + 0.1
    monkeypatch.setattr(credentials_module.time, "monotonic", lambda: later)

    assert credentials.cached(CREDENTIAL) is None
    credentials.check()
    assert credentials.cached(CREDENTIAL) is not None


def test_a_reconnecting_fleet_is_looked_up_with_one_query(sqlite: Database) -> None:
    for number in range(20):
        add_agent(sqlite, f"credential {number}")
    credentials = Credentials(sqlite)
    with statements(sqlite) as seen:
        found = {credentials.find(f"credential {number}").id for number in range(20)}
    assert len(found) == 20
    assert len([statement for statement in seen if statement.startswith("SELECT")]) == 2, "the generation and everybody"


def test_an_agent_added_later_is_found(sqlite: Database) -> None:
    add_agent(sqlite)
    credentials = Credentials(sqlite)
    credentials.find(CREDENTIAL)
    later = add_agent(sqlite, "a new one")

    assert credentials.find("a new one") == later


def test_an_unknown_credential_is_refused_each_time(sqlite: Database) -> None:
    credentials = Credentials(sqlite)
    for _ in range(2):
        with pytest.raises(Unauthenticated):
            credentials.find("bk_agent_of_nobody")


# --- the work cache --------------------------------------------------------------------------------------------------


def test_an_idle_work_cache_needs_no_statement_and_any_change_refreshes_it(sqlite: Database) -> None:
    cache = WorkCache(sqlite)
    cache.refreshed()
    with statements(sqlite) as seen:
        assert cache.fresh() is not None
        assert cache.refreshed().waiting == frozenset()
    assert seen == []

    job = enqueue(sqlite, BACKUP, 1, executor="agent")

    assert cache.fresh() is None
    assert cache.refreshed().waiting == {1}
    cancel(sqlite, job)
    assert cache.refreshed().waiting == frozenset()


def test_a_reconnecting_machine_leaves_the_work_cache_fresh(sqlite: Database, fleet: Fleet) -> None:
    agent = add_agent(sqlite)
    cache = WorkCache(sqlite)
    cache.refreshed()
    heard = sqlite.wake.number

    hear(fleet, agent)

    assert cache.fresh() is not None
    assert sqlite.wake.number > heard, "administrators hear of it"


def test_inline_calls_leave_the_work_cache_fresh(sqlite: Database) -> None:
    cache = WorkCache(sqlite)
    cache.refreshed()

    call = enqueue(sqlite, BACKUP, 1, executor="inline")
    with sqlite.writing() as session:
        assert claim_one(session, call, "me", "/spool").may_start
    with sqlite.writing() as session:
        remove_finished_inline(session, call)

    assert cache.fresh() is not None


def test_a_waiting_agent_is_woken_by_its_own_work_and_not_by_that_of_others(sqlite: Database) -> None:
    cache = WorkCache(sqlite)
    seen = cache.refreshed()

    async def wait() -> tuple[bool, bool]:
        mine = asyncio.create_task(cache.wait_for_work(1, 20, seen, lambda: False))
        other = asyncio.create_task(cache.wait_for_work(2, 20, seen, lambda: False))
        await asyncio.sleep(0)
        await asyncio.to_thread(enqueue, sqlite, BACKUP, 1, executor="agent")
        await asyncio.to_thread(cache.look)
        await asyncio.wait_for(mine, PATIENCE)
        other_is_done = other.done()
        other.cancel()
        return mine.done(), other_is_done

    assert asyncio.run(wait()) == (True, False)
    assert cache._waiters == {}


def test_waiting_for_work_ends_at_its_timeout(sqlite: Database) -> None:
    cache = WorkCache(sqlite)
    seen = cache.refreshed()

    asyncio.run(asyncio.wait_for(cache.wait_for_work(1, 0.01, seen, lambda: False), 10))

    assert cache._waiters == {}


def test_a_waiting_fleet_shares_one_refresh_after_an_unrelated_change(sqlite: Database) -> None:
    cache = WorkCache(sqlite)
    seen = cache.refreshed()
    enqueue(sqlite, BACKUP, 1)
    asked: list[int] = []

    def is_there() -> bool:
        asked.append(1)
        return False

    async def wait() -> list[bool]:
        fleet = [asyncio.create_task(cache.wait_for_work(agent, 20, seen, is_there)) for agent in range(1, 51)]
        while len(asked) < len(fleet):  # noqa: ASYNC110 - each checks once it waits
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        ended = [task.done() for task in fleet]
        for task in fleet:
            task.cancel()
        await asyncio.gather(*fleet, return_exceptions=True)
        return ended

    with statements(sqlite) as said:
        assert asyncio.run(asyncio.wait_for(wait(), 20)) == [False] * 50
    assert len([statement for statement in said if statement.startswith("SELECT")]) == 2, "one look for all of them"
    assert cache._waiters == {}


def test_work_queued_after_the_agents_last_check_is_not_missed(sqlite: Database) -> None:
    cache = WorkCache(sqlite)
    seen = cache.refreshed()
    enqueue(sqlite, BACKUP, 1, executor="agent")

    asyncio.run(asyncio.wait_for(cache.wait_for_work(1, 20, seen, lambda: False), 10))

    cache.refreshed()  # another request has refreshed the cache meanwhile and woken those that waited
    asyncio.run(asyncio.wait_for(cache.wait_for_work(1, 20, seen, lambda: False), 10))


def test_runners_do_not_claim_work_of_agents(sqlite: Database) -> None:
    enqueue(sqlite, BACKUP, 1, executor="agent")

    assert claim(sqlite) == []
