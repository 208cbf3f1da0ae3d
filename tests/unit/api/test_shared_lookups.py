"""Requests that need the same lookup at the same time."""

import asyncio

import pytest

from holdfast.api.shared_lookups import SharedLookups


class Asked:
    """A lookup that takes a moment, and counts how often it runs."""

    def __init__(self, *, fails_first: bool = False, is_cached: bool = True) -> None:
        self.cache: dict[object, str] = {}
        self.count = 0
        self.fails_first = fails_first
        self.lookups: SharedLookups[str] = SharedLookups(self.cache.get, is_cached=is_cached)

    async def look_up(self) -> str:
        self.count += 1
        number = self.count
        await asyncio.sleep(0.01)
        if self.fails_first and number == 1:
            raise ValueError("the first one")
        self.cache["key"] = "value"
        return "value"

    async def many(self, number: int) -> list[str | BaseException]:
        asking = (self.lookups.of("key", self.look_up) for _ in range(number))
        return await asyncio.gather(*asking, return_exceptions=True)


def test_many_requests_share_one_lookup() -> None:
    asked = Asked()

    assert asyncio.run(asked.many(100)) == ["value"] * 100
    assert asked.count == 1


def test_a_failed_lookup_concerns_only_its_own_request() -> None:
    asked = Asked(fails_first=True)

    first, *others = asyncio.run(asked.many(5))

    assert isinstance(first, ValueError)
    assert others == ["value"] * 4


def test_without_a_cache_nobody_waits_for_another() -> None:
    asked = Asked(is_cached=False)

    assert asyncio.run(asked.many(5)) == ["value"] * 5
    assert asked.count == 5


def test_a_lookup_that_is_cancelled_leaves_nobody_waiting() -> None:
    asked = Asked()

    async def story() -> str:
        first = asyncio.create_task(asked.lookups.of("key", asked.look_up))
        await asyncio.sleep(0)
        second = asyncio.create_task(asked.lookups.of("key", asked.look_up))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return await second

    assert asyncio.run(story()) == "value"
