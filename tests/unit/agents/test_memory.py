"""What is kept in memory: an idle fleet costs the store nothing, and nobody is believed longer than a second."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine
from sqlalchemy import event

from backup_protocol import AgentStatus
from holdfast.agents import credentials as credentials_module
from holdfast.agents import store
from holdfast.agents.board import Board
from holdfast.agents.credentials import Credentials, KnownAgent, known
from holdfast.agents.fleet import Fleet
from holdfast.agents.models import AgentMachine
from holdfast.agents.schemas import HeartbeatBody
from holdfast.errors import Forbidden, Unauthenticated
from holdfast.kit.tokens import token_hash
from holdfast.settings import Settings
from holdfast.storage.session import Database
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
    return known(agent)


def heartbeat(agent: KnownAgent, **more: object) -> HeartbeatBody:
    return HeartbeatBody.model_validate(
        {"agent_id": agent.agent_id, "hostname": "far", "agent_version": "1", "capabilities": ["backup.create"], **more}
    )


def read(database: Database, agent: KnownAgent) -> AgentMachine:
    with database.reading() as session:
        found = store.get(session, agent.id)
    assert found is not None
    return found


@contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    """The statements that reach the store meanwhile."""
    seen: list[str] = []
    engines = {database.engine, database._reader}

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        seen.append(statement)

    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    yield seen
    for engine in engines:
        event.remove(engine, "before_cursor_execute", note)


# --- heartbeats ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def fleet(sqlite: Database, tmp_path: Path) -> Fleet:
    with time_machine.travel(NOON - timedelta(hours=1), tick=False):
        return Fleet(Settings(data_dir=tmp_path), sqlite)


def test_heartbeats_with_nothing_new_are_stored_once_a_minute(sqlite: Database, fleet: Fleet) -> None:
    agent = add_agent(sqlite)
    with time_machine.travel(NOON, tick=False):
        assert not fleet.note(agent, heartbeat(agent), NOON)
        fleet.store_heartbeat(agent, heartbeat(agent), NOON)
    with statements(sqlite) as seen:
        for seconds in (5, 20, 35, 50):
            with time_machine.travel(NOON + timedelta(seconds=seconds), tick=False):
                assert fleet.note(agent, heartbeat(agent), NOON + timedelta(seconds=seconds))
                fleet.store_seen()
    assert seen == []
    assert fleet.last_seen(read(sqlite, agent)) == NOON + timedelta(seconds=50)
    with time_machine.travel(NOON + timedelta(seconds=61), tick=False):
        fleet.store_seen()
    assert read(sqlite, agent).last_seen_at == NOON + timedelta(seconds=50)


def test_many_agents_are_stored_together(database: Database, tmp_path: Path) -> None:
    fleet = Fleet(Settings(data_dir=tmp_path), database)
    agents = [add_agent(database, f"credential {number}") for number in range(5)]
    for number, agent in enumerate(agents):
        fleet.store_heartbeat(agent, heartbeat(agent), NOON)
        fleet.note(agent, heartbeat(agent), NOON + timedelta(seconds=number + 1))
    with database.writing() as session:
        store.set_status(session, store.active(session, agents[0].id), AgentStatus.OFFLINE)
        store.set_status(session, store.active(session, agents[1].id), AgentStatus.REVOKED)

    fleet.store_seen(at_once=True)

    stored = [read(database, agent) for agent in agents]
    assert [agent.status for agent in stored] == ["online", "revoked", "online", "online", "online"]
    seconds = [(agent.last_seen_at - NOON).total_seconds() for agent in stored if agent.last_seen_at]
    assert seconds == [1, 0, 3, 4, 5]


def test_a_heartbeat_with_something_new_is_stored_at_once(sqlite: Database, fleet: Fleet) -> None:
    agent = add_agent(sqlite)
    fleet.store_heartbeat(agent, heartbeat(agent), NOON)

    assert not fleet.note(agent, heartbeat(agent, agent_version="2"), NOON)
    assert not fleet.note(agent, heartbeat(agent, capabilities=[]), NOON)
    assert fleet.note(agent, heartbeat(agent), NOON)


def test_a_fleet_that_comes_back_to_a_restarted_service_writes_nothing(sqlite: Database, tmp_path: Path) -> None:
    agent = add_agent(sqlite)
    settings = Settings(data_dir=tmp_path)
    Fleet(settings, sqlite).take(agent, heartbeat(agent), NOON)
    restarted = Fleet(settings, sqlite)
    with statements(sqlite) as seen:
        assert not restarted.note(agent, heartbeat(agent), NOON)
        restarted.take(agent, heartbeat(agent), NOON)
    assert [statement for statement in seen if not statement.startswith(("SELECT", "BEGIN"))] == []
    assert "BEGIN IMMEDIATE" not in seen
    assert restarted.note(agent, heartbeat(agent), NOON)


def test_silence_is_judged_by_the_newest_that_is_known(sqlite: Database, fleet: Fleet) -> None:
    talking, silent = add_agent(sqlite), add_agent(sqlite, "another")
    with time_machine.travel(NOON, tick=False):
        for agent in (talking, silent):
            fleet.store_heartbeat(agent, heartbeat(agent), NOON)
    later = NOON + timedelta(seconds=121)
    fleet.note(talking, heartbeat(talking), later - timedelta(seconds=30))
    with time_machine.travel(later, tick=False):
        fleet.find_silent()

    assert read(sqlite, talking).status == AgentStatus.ONLINE
    assert read(sqlite, silent).status == AgentStatus.OFFLINE
    assert not fleet.note(silent, heartbeat(silent), later), "its return is a change of state"


def test_a_service_that_has_just_started_takes_nobody_for_silent(sqlite: Database, tmp_path: Path) -> None:
    agent = add_agent(sqlite)
    with time_machine.travel(NOON, tick=False):
        Fleet(Settings(data_dir=tmp_path), sqlite).store_heartbeat(agent, heartbeat(agent), NOON)
    much_later = NOON + timedelta(hours=5)
    with time_machine.travel(much_later, tick=False):
        restarted = Fleet(Settings(data_dir=tmp_path), sqlite)
        restarted.find_silent()
    assert read(sqlite, agent).status == AgentStatus.ONLINE
    with time_machine.travel(much_later + timedelta(seconds=121), tick=False):
        restarted.find_silent()
    assert read(sqlite, agent).status == AgentStatus.OFFLINE


def test_an_agent_that_is_shut_out_cannot_come_back_by_a_heartbeat(sqlite: Database, fleet: Fleet) -> None:
    agent = add_agent(sqlite)
    fleet.store_heartbeat(agent, heartbeat(agent), NOON)
    fleet.note(agent, heartbeat(agent), NOON + timedelta(seconds=5))
    with sqlite.writing() as session:
        store.set_status(session, store.active(session, agent.id), AgentStatus.REVOKED)

    fleet.store_seen(at_once=True)
    with pytest.raises(Forbidden):
        fleet.store_heartbeat(agent, heartbeat(agent, agent_version="2"), NOON)

    assert read(sqlite, agent).status == AgentStatus.REVOKED


# --- credentials -----------------------------------------------------------------------------------------------------------


def test_a_known_credential_costs_no_statement(sqlite: Database) -> None:
    add_agent(sqlite)
    credentials = Credentials(sqlite)
    found = credentials.find(CREDENTIAL)
    with statements(sqlite) as seen:
        assert credentials.cached(CREDENTIAL) == found
    assert seen == []


def test_a_change_in_another_process_is_seen_by_the_next_look(database: Database) -> None:
    agent = add_agent(database)
    here, there = Credentials(database), database
    here.find(CREDENTIAL)
    with there.writing() as session:
        store.set_status(session, store.active(session, agent.id), AgentStatus.REVOKED)
        store.next_generation(session)

    here.check()

    assert here.cached(CREDENTIAL) is None
    assert here.find(CREDENTIAL).status == AgentStatus.REVOKED


def test_memory_that_nobody_has_checked_is_not_believed(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    add_agent(sqlite)
    credentials = Credentials(sqlite)
    credentials.find(CREDENTIAL)
    later = time.monotonic() + credentials_module.OLDEST_SECONDS + 0.1
    monkeypatch.setattr(credentials_module.time, "monotonic", lambda: later)

    assert credentials.cached(CREDENTIAL) is None
    credentials.check()
    assert credentials.cached(CREDENTIAL) is not None


def test_an_unknown_credential_is_refused_each_time(sqlite: Database) -> None:
    credentials = Credentials(sqlite)
    for _ in range(2):
        with pytest.raises(Unauthenticated):
            credentials.find("bk_agent_of_nobody")


# --- the board -----------------------------------------------------------------------------------------------------------


def test_an_idle_board_answers_from_memory_and_any_change_makes_it_look(sqlite: Database) -> None:
    board = Board(sqlite)
    board.refreshed()
    with statements(sqlite) as seen:
        assert board.fresh() is not None
        assert board.refreshed().waiting == frozenset()
    assert seen == []

    job = enqueue(sqlite, BACKUP, 1, executor="agent")

    assert board.fresh() is None
    assert board.refreshed().waiting == {1}
    cancel(sqlite, job)
    assert board.refreshed().waiting == frozenset()


def test_who_waits_is_woken_by_work_of_its_own_and_not_by_that_of_others(sqlite: Database) -> None:
    board = Board(sqlite)
    board.refreshed()

    async def wait() -> tuple[bool, bool]:
        mine = asyncio.create_task(board.wait_for_work(1, 20))
        other = asyncio.create_task(board.wait_for_work(2, 20))
        await asyncio.sleep(0)
        await asyncio.to_thread(enqueue, sqlite, BACKUP, 1, executor="agent")
        await asyncio.to_thread(board.look)
        await asyncio.wait_for(mine, 10)
        other_is_done = other.done()
        other.cancel()
        return mine.done(), other_is_done

    assert asyncio.run(wait()) == (True, False)
    assert board._waiters == {}


def test_waiting_for_work_ends_when_its_time_is_up(sqlite: Database) -> None:
    board = Board(sqlite)
    board.refreshed()

    asyncio.run(asyncio.wait_for(board.wait_for_work(1, 0.01), 10))

    assert board._waiters == {}


def test_runners_leave_running_work_of_agents_alone(sqlite: Database) -> None:
    enqueue(sqlite, BACKUP, 1, executor="agent")

    assert claim(sqlite) == []
