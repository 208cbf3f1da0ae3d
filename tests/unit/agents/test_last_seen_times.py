"""When agents were last seen: few bytes for a large fleet, correct with several processes, and not lost by a kill."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import time_machine
from sqlalchemy import insert

from backup_protocol import AgentStatus
from holdfast.agents import last_seen_times, store
from holdfast.agents.credentials import KnownAgent
from holdfast.agents.fleet import STORED_EVERY_SECONDS, Fleet, Heartbeat
from holdfast.agents.models import AgentMachine
from holdfast.settings import Settings
from holdfast.storage.session import Database
from tests.unit.agents.test_memory import NOON, add_agent, hear, heartbeat, read, stored_time

MANY = 3000
MOST_BYTES_A_SECOND = 20_000 * MANY / 10_000
"""What ten thousand agents may write, scaled down to this fleet."""


def fleet_of(database: Database, folder: Path, began: datetime = NOON - timedelta(hours=1)) -> Fleet:
    with time_machine.travel(began, tick=False):
        return Fleet(Settings(data_dir=folder), database)


def test_times_only_move_forward(database: Database) -> None:
    with database.writing() as session:
        last_seen_times.store_times(session, {1: NOON, 1023: NOON, 1024: NOON, 5000: NOON})
    with database.writing() as session:
        last_seen_times.store_times(session, {1: NOON - timedelta(seconds=9), 1024: NOON + timedelta(seconds=9)})
    with database.reading() as session:
        expected = {1: NOON, 1023: NOON, 1024: NOON + timedelta(seconds=9), 5000: NOON}
        assert last_seen_times.all_agents(session) == expected
        assert [last_seen_times.one(session, number) for number in (1024, 2, 9999)] == [expected[1024], None, None]


def test_an_agent_in_contact_with_another_process_is_not_silent(database: Database, tmp_path: Path) -> None:
    agent = add_agent(database)
    here, there = fleet_of(database, tmp_path), fleet_of(database, tmp_path)
    hear(here, agent)
    hear(there, agent)
    for minutes in range(1, 6):
        later = NOON + timedelta(minutes=minutes)
        with time_machine.travel(later, tick=False):
            assert there.note_unchanged(agent, heartbeat(agent), later)
            there.store_seen()
            here.find_silent()
            assert here.last_seen(read(database, agent)) == later
    assert read(database, agent).status == AgentStatus.ONLINE
    with time_machine.travel(later + timedelta(seconds=122), tick=False):
        here.find_silent()
    assert read(database, agent).status == AgentStatus.OFFLINE


def test_an_agent_marked_offline_by_mistake_is_online_again_once_its_times_are_stored(
    database: Database, tmp_path: Path
) -> None:
    agent = add_agent(database)
    fleet = fleet_of(database, tmp_path)
    hear(fleet, agent)
    with database.writing() as session:
        store.set_status(session, store.active(session, agent.id), AgentStatus.OFFLINE)
    fleet.note_unchanged(agent, heartbeat(agent), NOON + timedelta(seconds=61))
    with time_machine.travel(NOON + timedelta(seconds=61), tick=False):
        fleet.store_seen()
    assert read(database, agent).status == AgentStatus.ONLINE


def test_after_the_clock_was_ahead_times_are_stored_again_and_an_agent_can_be_silent(
    database: Database, tmp_path: Path
) -> None:
    """In the process that ran all the time, and in one that has just started."""
    silent, alive = add_agent(database), add_agent(database, "bk_agent_another")
    fleet = fleet_of(database, tmp_path)
    wrong = NOON + timedelta(days=365)
    with time_machine.travel(wrong, tick=False) as traveller:
        fleet.process([Heartbeat(agent, heartbeat(agent), wrong) for agent in (silent, alive)])
        for agent in (silent, alive):
            fleet.note_unchanged(agent, heartbeat(agent), wrong + timedelta(seconds=90))
        traveller.shift(timedelta(seconds=90))
        fleet.store_seen()
        fleet.find_silent()
    restarted = fleet_of(database, tmp_path, NOON)
    for seconds in range(0, 300, 5):
        later = NOON + timedelta(seconds=seconds)
        with time_machine.travel(later, tick=False):
            assert fleet.note_unchanged(alive, heartbeat(alive), later)
            for each in (fleet, restarted):
                each.store_seen()
                each.find_silent()
        if seconds < 110:
            assert read(database, silent).status == AgentStatus.ONLINE, "silence counts from the correction on"
    assert read(database, silent).status == AgentStatus.OFFLINE
    assert read(database, alive).status == AgentStatus.ONLINE
    seen = stored_time(database, alive)
    assert seen is not None
    assert later - timedelta(seconds=65) <= seen <= later


def test_a_time_of_the_future_is_replaced(database: Database) -> None:
    for moment in (NOON + timedelta(days=365), NOON):
        with time_machine.travel(moment, tick=False), database.writing() as session:
            last_seen_times.store_times(session, {1: moment})
    with database.reading() as session:
        assert last_seen_times.one(session, 1) == NOON


def test_after_a_kill_the_last_seen_time_is_at_most_a_minute_too_old(sqlite: Database, tmp_path: Path) -> None:
    agent = add_agent(sqlite)
    fleet = fleet_of(sqlite, tmp_path)
    hear(fleet, agent)
    for seconds in range(0, 600, 5):
        later = NOON + timedelta(seconds=seconds)
        with time_machine.travel(later, tick=False):
            fleet.note_unchanged(agent, heartbeat(agent), later)
            fleet.store_seen()
    restarted = fleet_of(sqlite, tmp_path, later)
    with time_machine.travel(later, tick=False):
        restarted.find_silent()
    known = restarted.last_seen(read(sqlite, agent))
    assert known is not None
    assert later - known <= timedelta(seconds=STORED_EVERY_SECONDS + 5)
    with time_machine.travel(later + timedelta(seconds=119), tick=False):
        restarted.find_silent()
    assert read(sqlite, agent).status == AgentStatus.ONLINE


def test_an_idle_fleet_writes_little(sqlite: Database, tmp_path: Path) -> None:
    agents = many_agents(sqlite)
    fleet = fleet_of(sqlite, tmp_path)
    bodies = {agent.id: heartbeat(agent) for agent in agents}
    fleet.process([Heartbeat(agent, bodies[agent.id], NOON) for agent in agents])
    log = Path(str(sqlite.engine.url.database) + "-wal")
    with sqlite.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.exec_driver_sql("PRAGMA wal_autocheckpoint=0")
        connection.exec_driver_sql("BEGIN")
    assert log.stat().st_size == 0
    minutes = 3
    for minute in range(1, minutes + 1):
        later = NOON + timedelta(minutes=minute)
        with time_machine.travel(later, tick=False):
            for agent in agents:
                assert fleet.note_unchanged(agent, bodies[agent.id], later)
            fleet.store_seen()
    written = 2 * log.stat().st_size  # once into the log and once, later, into the store
    assert 0 < written / (60 * minutes) < MOST_BYTES_A_SECOND


def test_reconnecting_agents_do_not_cause_all_times_to_be_stored_more_often(sqlite: Database, tmp_path: Path) -> None:
    agents = many_agents(sqlite)[:20]
    fleet = fleet_of(sqlite, tmp_path)
    bodies = {agent.id: heartbeat(agent) for agent in agents}
    stored = set()
    for seconds in range(0, 600, 5):
        later = NOON + timedelta(seconds=seconds)
        connecting = agents[seconds // 5 % 6 :: 6]
        came = connecting[seconds // 30 % len(connecting)]
        with time_machine.travel(later, tick=False):
            with sqlite.writing() as session:
                store.set_status(session, store.active(session, came.id), AgentStatus.OFFLINE)
            fleet.process([Heartbeat(came, bodies[came.id], later)])
            for agent in connecting:
                fleet.note_unchanged(agent, bodies[agent.id], later)
            fleet.store_seen()
        with sqlite.reading() as session:
            stored.add(max(last_seen_times.all_agents(session).values(), default=None))
    assert len(stored - {None}) <= 600 / STORED_EVERY_SECONDS + 1


def many_agents(database: Database) -> list[KnownAgent]:
    now = datetime.now(UTC)
    common = {
        "name": "far", "token_prefix": "", "hostname": "far", "os": "linux", "arch": "x", "agent_version": "1",
        "engine_versions": [], "capabilities": ["backup.create"], "labels": {}, "status": AgentStatus.ONLINE,
        "last_seen_at": NOON - timedelta(minutes=5), "created_at": now, "updated_at": now,
    }  # fmt: skip
    rows = [
        {**common, "id": number, "agent_id": f"{number:032}", "token_hash": f"{number}"}
        for number in range(1, MANY + 1)
    ]
    with database.writing() as session:
        session.execute(insert(AgentMachine), rows)
    return [KnownAgent(row["id"], row["agent_id"], "far", AgentStatus.ONLINE) for row in rows]
