import asyncio
import threading

import pytest

from holdfast.access import passwords
from holdfast.access.fair_queue import ClientKey
from holdfast.access.passwords import HashingThreads, hash_password, is_password
from holdfast.errors import Unavailable
from tests.support.service import PATIENCE

HOME = "192.0.2.10"
WHOSE = ClientKey(HOME, "anna")


def test_a_password_matches_only_its_own_hash() -> None:
    stored = hash_password("correct horse")
    assert stored.startswith("$argon2id$")
    assert is_password("correct horse", stored)
    assert not is_password("correct horse ", stored)
    assert not is_password("correct horse", None)
    assert not is_password("correct horse", "no hash")
    assert hash_password("correct horse") != stored


def test_hashing_uses_at_most_two_threads_and_a_flood_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "MAX_WAITING", 3)
    threads, release = HashingThreads(), threading.Event()
    running: set[str] = set()

    def work() -> str:
        running.add(threading.current_thread().name)
        release.wait(PATIENCE)
        return "done"

    async def flood() -> list[object]:
        calls = [asyncio.ensure_future(threads.run(ClientKey(HOME, str(number)), work)) for number in range(8)]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        release.set()
        return await asyncio.gather(*calls, return_exceptions=True)

    results = asyncio.run(flood())
    assert results[:5] == ["done"] * 5
    assert all(isinstance(result, Unavailable) and result.retry_after for result in results[5:])
    assert len(running) <= 2
    assert asyncio.run(threads.run(WHOSE, lambda: "again")) == "again"
    threads.close()


def test_a_request_cancelled_while_waiting_frees_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "MAX_WAITING", 1)
    threads, release = HashingThreads(), threading.Event()

    async def give_up() -> str:
        calls = [
            asyncio.ensure_future(threads.run(ClientKey(HOME, str(number)), release.wait, 10)) for number in range(3)
        ]
        await asyncio.sleep(0)
        calls[2].cancel()
        await asyncio.gather(calls[2], return_exceptions=True)
        release.set()
        return await threads.run(WHOSE, lambda: "served")

    assert asyncio.run(give_up()) == "served"
    threads.close()
