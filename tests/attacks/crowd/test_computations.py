"""25 previews of a schedule with 50 windows, requested by one viewer, occupied every reading thread for minutes; later,
computed one at a time in a thread, they made everyone else's requests five to eight times as slow.
"""

import asyncio
import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
from fastapi import Request, Response

from holdfast.api import threads
from holdfast.errors import Unavailable, Unprocessable
from holdfast.kit import compute_process
from holdfast.kit.compute_child import NICENESS
from holdfast.kit.compute_process import ComputationFailed, ComputeProcess, pack_call
from holdfast.runner import computations
from holdfast.runner.computations import COMPUTATIONS, MOST_OF_A_USER, Computations, Steps
from holdfast.schedules.calendar import entries
from holdfast.settings import Settings
from tests.contract.fields import error_of
from tests.support.in_process import InProcess, started
from tests.support.service import PATIENCE, wait_until

MANY = MOST_OF_A_USER + 10
ENDLESS = pack_call(time.sleep, PATIENCE)
SMALL = pack_call(math.factorial, 5)
HEAVY = ["sqlalchemy", "pydantic", "fastapi", "numpy"]


def computed(*packed: bytes, computer: ComputeProcess | None = None) -> list[Any]:
    async def run() -> list[Any]:
        chosen = computer or ComputeProcess()
        try:
            return [await chosen.compute(each) for each in packed]
        finally:
            chosen.end()

    return asyncio.run(run())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - the condition sends no signal
            await asyncio.sleep(0.01)


def kind_of(error: pytest.ExceptionInfo[Any]) -> tuple[int, str]:
    return error.value.status, error.value.key


# --- the process ------------------------------------------------------------------------------------------------------


def test_computations_run_at_low_priority_and_without_the_services_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SECRET_KEY", "a secret")
    answers = computed(pack_call(os.nice, 0), pack_call(os.getenv, "HOLDFAST_SECRET_KEY"), pack_call(os.getpid))
    assert answers[:2] == [os.nice(0) + NICENESS, None]
    assert not psutil.pid_exists(answers[2])


def test_the_process_loads_neither_the_store_nor_the_api() -> None:
    functions = "holdfast.schedules.calendar.entries", "holdfast.archives.retention.simulation_answer"
    loaded = pack_call(eval, f"[name for name in {HEAVY!r} if name in __import__('sys').modules]")
    assert computed(*(pack_call(exec, f"import {name}") for name in functions), loaded)[-1] == []


@pytest.mark.parametrize("is_computing", [True, False])
def test_a_killed_process_costs_at_most_one_response(*, is_computing: bool) -> None:
    async def run() -> None:
        computer = ComputeProcess()
        first = await computer.compute(pack_call(os.getpid))
        if is_computing:
            with pytest.raises(Unavailable) as refused:
                await computer.compute(pack_call(os._exit, 1))
            assert kind_of(refused) == (503, "api.computation_failed")
            assert refused.value.retry_after == 1
        else:
            os.kill(first, signal.SIGKILL)
            await until(lambda: psutil.Process(first).status() == psutil.STATUS_ZOMBIE)
        assert await computer.compute(pack_call(os.getpid)) != first
        computer.end()

    asyncio.run(run())


def test_a_computation_or_result_that_is_too_large_is_refused_and_the_next_one_works() -> None:
    for much in (pack_call(bytes, 2 << 30), pack_call(bytes, compute_process.MOST_BYTES_ANSWERED + 1)):
        with pytest.raises(Unprocessable) as refused:
            computed(SMALL, much)
        assert kind_of(refused) == (422, "api.computation_too_large")

    async def run() -> list[Any]:
        computer = ComputeProcess()
        with contextlib.suppress(Unprocessable):
            await computer.compute(pack_call(bytes, 2 << 30))
        answer = [await computer.compute(SMALL)]
        computer.end()
        return answer

    assert asyncio.run(run()) == [120]


def test_arguments_that_are_too_large_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_process, "MOST_BYTES_GIVEN", 1000)
    with pytest.raises(Unprocessable) as refused:
        pack_call(len, b"x" * 1000)
    assert kind_of(refused) == (422, "api.computation_too_large")


@pytest.mark.parametrize(
    ("limit", "packed"),
    [({"seconds": 1, "clock_seconds": 10_000}, pack_call(sum, range(10**12))), ({"clock_seconds": 1}, ENDLESS)],
)
def test_a_computation_that_takes_too_long_is_ended(limit: dict[str, int], packed: bytes) -> None:
    computer = ComputeProcess(**limit)
    with pytest.raises(Unprocessable) as refused:
        computed(packed, computer=computer)
    assert kind_of(refused) == (422, "api.computation_too_large")
    assert computer.pid is None


def test_a_failing_function_is_reported_and_does_not_end_the_process() -> None:
    async def run() -> None:
        computer = ComputeProcess()
        first = await computer.compute(pack_call(os.getpid))
        with pytest.raises(ComputationFailed, match="ZeroDivisionError"):
            await computer.compute(pack_call(divmod, 1, 0))
        assert await computer.compute(pack_call(os.getpid)) == first
        computer.end()

    asyncio.run(run())


def test_a_result_cannot_make_the_service_run_code() -> None:
    with pytest.raises(Exception, match=r"an answer holds pathlib\.PosixPath"):
        computed(pack_call(Path, "/"))


def test_an_idle_process_ends_after_a_while() -> None:
    async def run() -> int:
        computer = ComputeProcess(idle_seconds=0.01)
        pid: int = await computer.compute(pack_call(os.getpid))
        await until(lambda: computer.pid is None)
        return pid

    assert not psutil.pid_exists(asyncio.run(run()))


def test_the_process_ends_with_the_service(tmp_path: Path) -> None:
    with started(tmp_path / "data") as running:
        computer = running.service.parts[COMPUTATIONS].computer
        admin = running.login()
        assert calendar(running, admin).status_code == 200
        assert computer.pid is None, "it does not exist before it is needed, and a small calendar does without"
        assert preview(running, admin).status_code == 200
        pid = computer.pid
        assert pid is not None
    assert not psutil.pid_exists(pid)


# --- turns ------------------------------------------------------------------------------------------------------------


class Client:
    """A request's view of its client."""

    has_left = False

    async def is_disconnected(self) -> bool:
        return self.has_left


def the_computations(**settings: Any) -> Computations:
    return Computations(Settings(**settings), ComputeProcess())


def ask(place: Computations, user_id: int, steps: Callable[[], Steps], client: Client | None = None) -> Any:
    return asyncio.create_task(place.run(cast("Request", client or Client()), user_id, steps))


def waiting(answered: list[str], name: str, packed: bytes = SMALL) -> Callable[[], Steps]:
    def steps() -> Steps:
        answered.append(name)
        yield packed
        return Response()

    return steps


def test_users_take_turns_no_matter_how_many_requests_one_of_them_sends() -> None:
    answered: list[str] = []

    async def run() -> None:
        place = the_computations()
        asked = [ask(place, 1, waiting(answered, "one")) for _ in range(MOST_OF_A_USER)]
        await until(lambda: answered)
        before = len(answered)
        await ask(place, 2, waiting(answered, "two"))
        assert answered.index("two") - before <= 1
        await asyncio.gather(*asked)
        place.computer.end()

    asyncio.run(run())
    assert answered.count("one") == MOST_OF_A_USER


@pytest.mark.parametrize("how", ["cancelled", "left"])
def test_an_abandoned_request_frees_its_place(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computations, "LOOK_SECONDS", 0.01)
    answered: list[str] = []

    async def run() -> None:
        place, client = the_computations(), Client()
        asked = ask(place, 1, waiting(answered, "first", ENDLESS), client)
        await until(lambda: place.computer.pid)
        if how == "cancelled":
            asked.cancel()
        else:
            client.has_left = True
        with pytest.raises((asyncio.CancelledError, Unavailable)):
            await asked
        assert place.computer.pid is None
        await ask(place, 1, waiting(answered, "second"))
        place.computer.end()

    asyncio.run(run())
    assert answered == ["first", "second"]


def test_a_request_waits_for_its_turn_no_longer_than_inline_calls_may_wait() -> None:
    async def run() -> None:
        place = the_computations(inline_wait_seconds=0.05)
        first = ask(place, 1, waiting([], "first", ENDLESS))
        await until(lambda: place.computer.pid)
        for user_id in (1, 2):
            with pytest.raises(Unavailable) as refused:
                await ask(place, user_id, waiting([], "another"))
            assert kind_of(refused) == (503, "api.computations_busy")
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first

    asyncio.run(run())


def test_the_computations_of_all_users_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computations, "MOST_IN_ALL", 3)

    async def run() -> None:
        place = the_computations()
        asked = [ask(place, number, waiting([], "one")) for number in range(4)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [isinstance(one, Unavailable) for one in found] == [False, False, False, True]
        assert (await ask(place, 9, waiting([], "later"))).status_code == 200
        place.computer.end()

    asyncio.run(run())


# --- the service ------------------------------------------------------------------------------------------------------


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcess]:
    monkeypatch.setitem(threads.THREADS, "reading", 1)
    with started(tmp_path / "data", inline_wait_seconds=300) as running:
        yield running


def preview(running: InProcess, headers: dict[str, str]) -> Any:
    wanted = {"cron_expression": "0 3 * * *", "targets": {"all": True}}
    return running.client.post("/api/schedules/preview", json=wanted, headers=headers)


def calendar(running: InProcess, headers: dict[str, str]) -> Any:
    return running.client.get("/api/schedules/calendar", headers=headers)


@pytest.mark.parametrize("route", [preview, calendar])
def test_many_computations_occupy_no_thread_and_excess_requests_are_refused(
    running: InProcess, route: Callable[[InProcess, dict[str, str]], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = threading.Event(), threading.Event()

    async def held(_computer: ComputeProcess, _packed: bytes) -> bytes:
        began.set()
        await until(go_on.is_set)
        return b"{}"

    monkeypatch.setattr(ComputeProcess, "compute", held)
    monkeypatch.setattr(entries, "SMALL", -1)
    admin = running.login()
    with ThreadPoolExecutor(MANY) as others:
        asked = [others.submit(route, running, admin) for _ in range(MANY)]
        try:
            wait_until(lambda: sum(one.done() for one in asked) == MANY - MOST_OF_A_USER, what="what is too much")
            assert began.wait(PATIENCE)
            assert running.client.get("/health/ready").status_code == 200
            listed = running.client.get("/api/schedules/", headers=admin)
            assert listed.status_code == 200, "the only thread that reads is free"
        finally:
            go_on.set()
        answers = [one.result(PATIENCE) for one in asked]
    refused = [answer for answer in answers if answer.status_code != 200]
    assert [error_of(answer) for answer in refused] == [(503, "api.computations_busy")] * (MANY - MOST_OF_A_USER)
    assert {answer.headers["Retry-After"] for answer in refused} == {"5"}
