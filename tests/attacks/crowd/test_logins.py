"""A flood of invalid logins delayed valid ones, and the cost of a login revealed which names exist."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher, extract_parameters

from holdfast.access import passwords
from holdfast.access.fair_queue import ClientKey, FairQueue
from holdfast.access.passwords import MAX_OF_ADDRESS, MAX_WAITING, HashingThreads
from holdfast.errors import Unavailable
from tests.support.in_process import InProcess, started
from tests.support.service import PATIENCE, wait_until

ATTACKER, HOME = "192.0.2.66", "198.51.100.20"
PLACES = passwords.THREADS


class NotedThreads(HashingThreads):
    """Records the order of turns. When a thread then does the work is the system's choice."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[str] = []

    async def _turn(self, whose: ClientKey) -> None:
        await super()._turn(whose)
        self.turns.append(whose.name)


class Turns:
    """Logins whose hashing waits until the gate opens."""

    def __init__(self) -> None:
        self.threads = NotedThreads()
        self.started: list[str] = []
        self.gate = threading.Event()

    def login(self, address: str, name: str) -> "asyncio.Task[None]":
        return asyncio.create_task(self.threads.run(ClientKey(address, name), self._hash, name))

    def _hash(self, name: str) -> None:
        self.started.append(name)
        self.gate.wait(PATIENCE)

    async def all_of(self, logins: "list[asyncio.Task[None]]") -> list[object]:
        self.gate.set()
        ended: list[object] = await asyncio.gather(*logins, return_exceptions=True)
        self.threads.close()
        return ended


def test_parallel_invalid_logins_do_not_delay_a_valid_one() -> None:
    turns = Turns()

    async def flood() -> list[object]:
        false = [turns.login(ATTACKER, f"false-{number}") for number in range(MAX_OF_ADDRESS)]
        await asyncio.sleep(0)
        true = turns.login(HOME, "true")
        await asyncio.sleep(0)
        return await turns.all_of([*false, true])

    assert set(asyncio.run(flood())) == {None}
    assert turns.threads.turns.index("true") < 2 * PLACES, "after those that had a place, and one more of the flood"


def test_only_addresses_that_flood_are_turned_away() -> None:
    turns = Turns()

    async def flood() -> tuple[list[object], list[object]]:
        addresses = [f"192.0.2.{number}" for number in range(1, 60)]
        false = [
            turns.login(address, f"{address}-{number}") for address in addresses for number in range(MAX_OF_ADDRESS)
        ]
        await asyncio.sleep(0)
        true = [turns.login(HOME, "true"), turns.login(HOME, "truer")]
        await asyncio.sleep(0)
        ended = await turns.all_of([*false, *true])
        return ended[:-2], ended[-2:]

    false, true = asyncio.run(flood())

    assert true == [None, None]
    assert sum(isinstance(end, Unavailable) for end in false) >= len(false) - MAX_WAITING - PLACES


def test_logins_of_one_name_from_one_address_never_take_all_places() -> None:
    turns = Turns()

    async def flood() -> list[object]:
        false = [turns.login(ATTACKER, "admin") for _ in range(5)]
        await asyncio.sleep(0)
        true = turns.login(ATTACKER, "true")
        # It gets a place even though none of the others has ended.
        await asyncio.to_thread(wait_until, lambda: "true" in turns.started, what="the true login is hashed")
        return await turns.all_of([*false, true])

    assert set(asyncio.run(flood())) == {None}


def test_names_and_addresses_take_turns() -> None:
    queue: FairQueue[str] = FairQueue()
    for whose, item in [
        (ClientKey("a", "1"), "a1"),
        (ClientKey("a", "1"), "a1 again"),
        (ClientKey("a", "2"), "a2"),
        (ClientKey("b", "1"), "b1"),
    ]:
        queue.put(whose, item)

    taken = [queue.take(()) for _ in range(4)]

    assert [found[1] for found in taken if found] == ["a1", "b1", "a2", "a1 again"]
    assert queue.take(()) is None
    assert len(queue) == 0


class CountingHasher(PasswordHasher):
    """Records what each login costs."""

    work: list[object]

    def verify(self, hash: str | bytes, password: str | bytes) -> bool:  # noqa: A002 - the name of the overridden one
        self.work.append(("verify", extract_parameters(str(hash))))
        return super().verify(hash, password)

    def hash(self, password: str | bytes, *, salt: bytes | None = None) -> str:
        self.work.append("hash")
        return super().hash(password, salt=salt)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[InProcess]:
    with started(tmp_path / "data") as running:
        yield running


def test_logins_with_unknown_existing_and_disabled_names_cost_the_same(
    running: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = running.login()
    for name in ("known", "disabled"):
        new = {"username": name, "password": "a good password", "role": "viewer"}
        made = running.client.post("/api/users", json=new, headers=admin).json()
        if name == "disabled":
            running.client.put(f"/api/users/{made['id']}", json={"disabled": True}, headers=admin)
    passwords._hash_of_nobody.cache_clear()  # another test may have created it with a cheaper hasher
    passwords._hash_of_nobody()
    hasher = CountingHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
    monkeypatch.setattr(passwords, "HASHER", hasher)

    cost = {}
    for name in ("unknown", "known", "disabled"):
        hasher.work = []
        answer = running.client.post("/api/auth/login", data={"username": name, "password": "wrong password"})
        assert answer.status_code == 401
        cost[name] = (hasher.work, answer.json()["detail"])

    assert cost["unknown"] == cost["known"] == cost["disabled"]
    assert len(cost["known"][0]) == 1
