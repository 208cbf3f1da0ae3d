"""45 live requests of one viewer occupied all threads: /health/ready took 30 seconds, and no user could log in."""

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from sqlalchemy import func, select
from starlette.requests import Request

from backup_engine.command import Command, Machine
from holdfast.errors import Unavailable
from holdfast.kit.change_signal import ChangeSignal
from holdfast.operations.locks import Access
from holdfast.operations.models import Operation
from holdfast.operations.queue import lane_of
from holdfast.repositories import archive_records
from holdfast.runner import engine_requests
from holdfast.runner.engine_requests import SECONDS_BETWEEN_ANSWERS, EngineRequests
from holdfast.runner.engine_turns import in_turn
from holdfast.runner.inline import INLINE_CALLS
from holdfast.runner.lane_ticket import (
    LOW_PRIORITY,
    TICKET,
    LaneNotFree,
    LaneTicket,
    reading_without_a_lane,
    without_a_thread,
)
from holdfast.settings import Settings
from holdfast.storage.session import Database
from tests.contract.fields import error_of
from tests.support.in_process import InProcess, started
from tests.support.service import PATIENCE, wait_until

MANY = 50
THREADS_OF_THE_FRAMEWORK = 40


@pytest.fixture
def running(tmp_path: Path) -> Iterator[InProcess]:
    with started(tmp_path / "data", inline_wait_seconds=300, engine_requests_per_user=2) as running:
        yield running


def waiting_requests(running: InProcess) -> int:
    with running.service.database.reading() as session:
        inline = select(func.count()).select_from(Operation).where(Operation.executor == "inline")
        return session.scalar(inline) or 0


@pytest.fixture
def repository(running: InProcess, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "file").touch()
    new = {"name": "one", "path": str(tmp_path / "one"), "encryption": "none", "index_mode": "off"}
    answer = running.client.post(
        "/api/repositories/", json={**new, "source_paths": [str(tmp_path / "file")]}, headers=running.login()
    )
    created: dict[str, Any] = answer.json()
    return created


def test_live_requests_of_one_user_do_not_keep_others_waiting(
    running: InProcess, repository: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_requests, "WAITING_FOR_EACH_PLACE", 1)
    admin = running.login()
    running.client.post("/api/backup/start", json={"repository": repository["path"]}, headers=admin)
    base = f"/api/repositories/{repository['id']}/archives"
    [archive] = wait_until(lambda: running.client.get(base, headers=admin).json()["archives"], what="the backup")
    folders = [f"{base}/{archive['id']}/browse?limit={number + 1}" for number in range(MANY)]
    assert MANY > THREADS_OF_THE_FRAMEWORK

    with ThreadPoolExecutor(MANY) as others:
        with running.service.parts[INLINE_CALLS].hold(lane_of(repository["id"]), access=Access.CHANGE):
            asked = [others.submit(running.client.get, folder, headers=admin) for folder in folders]
            refused = MANY - 4
            wait_until(lambda: sum(one.done() for one in asked) == refused, what="what is too much is refused at once")
            wait_until(lambda: waiting_requests(running) == 1 + 2, what="two wait in the queue of the repository")

            assert running.client.get("/health/ready").status_code == 200
            assert running.client.get("/api/auth/me", headers=admin).status_code == 200
            assert sum(one.done() for one in asked) == refused, "the others still wait"
            looked_up = Mock(wraps=archive_records.of_repository)
            monkeypatch.setattr(archive_records, "of_repository", looked_up)
            assert running.client.get(folders[0], headers=admin).status_code == 503
            assert not looked_up.called, "nothing is read for a request that is refused"

        answers = [one.result(PATIENCE) for one in asked]

    assert sorted({answer.status_code for answer in answers}) == [200, 503]
    assert sum(answer.status_code == 200 for answer in answers) == 4, "those that waited were served"
    for answer in answers:
        if answer.status_code == 503:
            assert error_of(answer) == (503, "api.too_many_engine_requests")
            assert int(answer.headers["Retry-After"]) > 0
    assert waiting_requests(running) == 0


def test_simultaneous_identical_requests_share_one_engine_run(running: InProcess, repository: dict[str, Any]) -> None:
    admin = running.login()
    live = f"/api/repositories/{repository['id']}/archives/live"
    waiting = 2 * (1 + engine_requests.WAITING_FOR_EACH_PLACE)

    with ThreadPoolExecutor(MANY) as others:
        with running.service.parts[INLINE_CALLS].hold(lane_of(repository["id"]), access=Access.CHANGE):
            asked = [others.submit(running.client.get, live, headers=admin) for _ in range(MANY)]
            wait_until(lambda: sum(one.done() for one in asked) == MANY - waiting, what="what is too much is refused")
            wait_until(lambda: waiting_requests(running) == 1 + 1, what="one of them waits in the repository's queue")
            assert running.client.get("/health/ready").status_code == 200

        answers = [one.result(PATIENCE) for one in asked]

    told = [answer.text for answer in answers if answer.status_code == 200]
    assert len(told) == waiting
    assert set(told) == {told[0]}


def test_a_request_for_a_busy_lane_is_refused_with_retry_after(tmp_path: Path) -> None:
    with started(tmp_path / "data", inline_wait_seconds=0.2) as running:
        admin = running.login()
        new = {"name": "one", "path": str(tmp_path / "one"), "encryption": "none", "index_mode": "off"}
        repository = running.client.post("/api/repositories/", json=new, headers=admin).json()
        with running.service.parts[INLINE_CALLS].hold(lane_of(repository["id"]), access=Access.CHANGE):
            answer = running.client.get(f"/api/repositories/{repository['id']}/archives/live", headers=admin)

            assert error_of(answer) == (423, "repository.busy")
            assert int(answer.headers["Retry-After"]) > 0
            assert waiting_requests(running) == 1, "its place in the queue is given up"


def settings(tmp_path: Path, **more: Any) -> Settings:
    return Settings(data_dir=tmp_path, database_url=None, role="all", **more)


def waits(*, is_gone: bool = False) -> Request:
    """A request whose client waits, or has left."""

    async def receive() -> Any:
        if not is_gone:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "headers": []}, receive)


def test_no_engine_runs_for_a_client_that_has_left_while_it_waited(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    requests = EngineRequests(chosen, Database(chosen.store_url))

    with pytest.raises(Unavailable):
        asyncio.run(requests.run(waits(is_gone=True), 1, lambda: pytest.fail("nobody waits for this")))


def asked_by(
    requests: EngineRequests,
    work: Callable[[], Any],
    *,
    user: int = 1,
    is_gone: bool = False,
    same: str = "the same question",
) -> Any:
    return asyncio.create_task(requests.run(waits(is_gone=is_gone), user, work, same=same))


def test_a_request_that_arrives_after_the_engine_started_waits_for_the_next_run(tmp_path: Path) -> None:
    chosen = settings(tmp_path, engine_requests_per_user=4, inline_wait_seconds=PATIENCE)
    requests = EngineRequests(chosen, Database(chosen.store_url))
    runs: list[int] = []

    async def story() -> list[list[int]]:
        begun, release = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def work() -> int:
            ticket = TICKET.get()
            assert ticket is not None
            ticket.is_used = True  # the lane is held
            runs.append(len(runs) + 1)
            number = runs[-1]
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result(PATIENCE)
            return number

        first = [asked_by(requests, work) for _ in range(3)]
        await begun.wait()
        late = [asked_by(requests, work) for _ in range(20)]
        other = asked_by(requests, work, user=2)
        while len(runs) < 2:  # noqa: ASYNC110 - filled by threads
            await asyncio.sleep(0.01)
        release.set()
        return [await asyncio.gather(*some) for some in (first, late, [other])]

    assert asyncio.run(story()) == [[1] * 3, [3] * 20, [2]]
    assert runs == [1, 2, 3], "one run for those before, one for those after, and another user's"


def test_a_request_that_arrives_after_a_read_without_a_lane_does_not_share_its_result(tmp_path: Path) -> None:
    chosen = settings(tmp_path, engine_requests_per_user=4, inline_wait_seconds=PATIENCE)
    requests = EngineRequests(chosen, Database(chosen.store_url))
    runs: list[bool] = []

    async def story(*, found: bool) -> list[int]:
        begun, release = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def work() -> int:
            runs.append(found)
            number = len(runs)
            with reading_without_a_lane() as reading:
                reading.found = found
                if found:
                    loop.call_soon_threadsafe(begun.set)
                    asyncio.run_coroutine_threadsafe(release.wait(), loop).result(PATIENCE)
            if not found:
                loop.call_soon_threadsafe(begun.set)
                asyncio.run_coroutine_threadsafe(release.wait(), loop).result(PATIENCE)
            return number

        first = asked_by(requests, work)
        await begun.wait()
        late = asked_by(requests, work)
        await asyncio.sleep(0)
        release.set()
        return list(await asyncio.gather(first, late))

    assert asyncio.run(story(found=True)) == [1, 2], "a change since then may be missing from it"
    assert asyncio.run(story(found=False)) == [3, 3], "nothing that was read is used, and there is no lane yet"


@pytest.mark.parametrize(
    ("many", "took", "pause"), [(3, 0.1, 1.0), (3, 3.0, 3.0), (3, 100.0, 5.0), (20, 0.1, 2.0), (40, 3.0, 4.0)]
)
def test_after_a_shared_run_the_same_request_pauses_for_its_duration_and_longer_after_a_crowd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int, took: float, pause: float
) -> None:
    chosen = settings(tmp_path, engine_requests_per_user=4, inline_wait_seconds=PATIENCE)
    requests = EngineRequests(chosen, Database(chosen.store_url))
    now, sleep, slept = [1000.0], asyncio.sleep, list[float]()
    monkeypatch.setattr(engine_requests, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def recorded(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    def work() -> None:
        now[0] += took

    async def story() -> list[list[float]]:
        release = asyncio.Event()
        loop = asyncio.get_running_loop()
        stays = asked_by(
            requests, lambda: asyncio.run_coroutine_threadsafe(release.wait(), loop).result(PATIENCE), same="another"
        )
        await sleep(0)
        monkeypatch.setattr(asyncio, "sleep", recorded)
        told = []
        for number, user in ((many, 1), (1, 1), (1, 1), (1, 2)):
            slept.clear()
            await asyncio.gather(*(asked_by(requests, work, user=user) for _ in range(number)))
            told.append([seconds for seconds in slept if seconds > SECONDS_BETWEEN_ANSWERS])
            now[0] += sum(told[-1])
        release.set()
        await stays
        return told

    assert asyncio.run(story()) == [[], [pytest.approx(pause)], [], []], "after the run for many, and after no other"


def test_waiting_clients_get_the_response_even_if_the_first_client_has_left(tmp_path: Path) -> None:
    chosen = settings(tmp_path, engine_requests_per_user=1, inline_wait_seconds=PATIENCE)
    requests = EngineRequests(chosen, Database(chosen.store_url))

    async def story() -> int:
        first = asked_by(requests, lambda: 1, is_gone=True)
        await asyncio.sleep(0)
        first.cancel()
        return int(await asked_by(requests, lambda: 2))

    assert asyncio.run(story()) == 1, "the run that was asked for first"


def test_an_error_reaches_every_waiting_client_and_the_next_request_runs_again(tmp_path: Path) -> None:
    chosen = settings(tmp_path, inline_wait_seconds=PATIENCE)
    requests = EngineRequests(chosen, Database(chosen.store_url))

    def fail() -> None:
        raise Unavailable("engine.unreachable", "The machine does not answer.")

    async def story() -> None:
        answers = await asyncio.gather(*(asked_by(requests, fail) for _ in range(3)), return_exceptions=True)
        assert [type(answer) for answer in answers] == [Unavailable] * 3
        assert await asked_by(requests, lambda: "well") == "well"

    asyncio.run(story())


def test_one_user_never_takes_all_places(tmp_path: Path) -> None:
    chosen = settings(tmp_path, engine_requests=4, engine_requests_per_user=2, inline_wait_seconds=PATIENCE)
    requests = EngineRequests(chosen, Database(chosen.store_url))
    running: list[int] = []

    async def story() -> None:
        release = asyncio.Event()
        loop = asyncio.get_running_loop()

        def work(user: int) -> None:
            running.append(user)
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result(PATIENCE)

        greedy = [asyncio.create_task(requests.run(waits(), 1, lambda: work(1))) for _ in range(10)]
        while len(running) < 2:  # noqa: ASYNC110 - filled by threads
            await asyncio.sleep(0.01)
        other = asyncio.create_task(requests.run(waits(), 2, lambda: work(2)))
        while 2 not in running:  # noqa: ASYNC110 - filled by threads
            await asyncio.sleep(0.01)
        assert sorted(running) == [1, 1, 2]
        release.set()
        await asyncio.gather(*greedy, other)

    asyncio.run(story())

    assert sorted(running) == [1] * 10 + [2]


def test_only_the_first_of_a_users_simultaneous_requests_runs_at_normal_priority(tmp_path: Path) -> None:
    chosen = settings(tmp_path, engine_requests=8, engine_requests_per_user=3, inline_wait_seconds=PATIENCE)
    requests = EngineRequests(chosen, Database(chosen.store_url))
    seen: list[tuple[int, bool]] = []

    async def story() -> None:
        release = asyncio.Event()
        loop = asyncio.get_running_loop()

        def work(user: int) -> None:
            seen.append((user, LOW_PRIORITY.get()))
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result(PATIENCE)

        started = []
        for user in (1, 1, 1, 2):
            started.append(asyncio.create_task(requests.run(waits(), user, partial(work, user))))
            while len(seen) < len(started):  # noqa: ASYNC110 - filled by threads
                await asyncio.sleep(0.01)
        release.set()
        await asyncio.gather(*started)
        await requests.run(waits(), 1, partial(work, 1))

    asyncio.run(story())

    assert seen == [(1, False), (1, True), (1, True), (2, False), (1, False)]


def test_a_use_case_is_retried_until_its_lane_is_free_and_a_failure_gives_up_its_place() -> None:
    work, calls, withdrawn = ChangeSignal(), [0], [0]

    async def in_thread(call: Any) -> Any:
        return await asyncio.to_thread(call)

    def use_case() -> str:
        ticket = TICKET.get()
        assert ticket is not None
        calls[0] += 1
        ticket.operation_id = 1
        ticket.withdraw = lambda: withdrawn.__setitem__(0, withdrawn[0] + 1)
        if calls[0] < 3:
            raise LaneNotFree
        raise ValueError("of the use case")

    with pytest.raises(ValueError, match="use case"):
        asyncio.run(without_a_thread(in_thread, use_case, work, LaneTicket(PATIENCE)))

    assert calls == [3]
    assert withdrawn == [1]


def test_a_place_in_the_queue_is_given_up_even_if_no_thread_is_free() -> None:
    calls, given_up = [0], [0]

    async def in_thread(call: Any) -> Any:
        calls[0] += 1
        if calls[0] > 1:
            raise Unavailable("api.too_many_engine_requests", "Too many requests wait.")
        return await asyncio.to_thread(call)

    def use_case() -> None:
        ticket = TICKET.get()
        assert ticket is not None
        ticket.operation_id = 1
        ticket.withdraw = ticket.leave = lambda: given_up.__setitem__(0, given_up[0] + 1)
        raise LaneNotFree

    with pytest.raises(Unavailable):
        asyncio.run(without_a_thread(in_thread, use_case, ChangeSignal(), LaneTicket(PATIENCE)))

    assert given_up == [2]


def test_a_result_that_still_holds_the_lane_keeps_its_place() -> None:
    withdrawn: list[str] = []

    async def in_thread(call: Any) -> Any:
        return await asyncio.to_thread(call)

    def use_case() -> str:
        ticket = TICKET.get()
        assert ticket is not None
        ticket.operation_id, ticket.is_used = 1, True
        ticket.withdraw = lambda: withdrawn.append("too early")
        return "a download"

    assert asyncio.run(without_a_thread(in_thread, use_case, ChangeSignal(), LaneTicket(PATIENCE))) == "a download"

    assert withdrawn == []


@pytest.mark.parametrize(("processors", "at_once"), [(1, 1), (2, 1), (4, 3)])
def test_the_engines_of_one_users_requests_leave_a_processor_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processors: int, at_once: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(processors)))
    chosen = settings(tmp_path, engine_requests=16, engine_requests_per_user=6, inline_wait_seconds=PATIENCE)
    requests = EngineRequests(chosen, Database(chosen.store_url))
    here, elsewhere = Command(("borg",)), Command(("borg",), machine=Machine("another", (), None))
    running, most, done = Counter[object](), Counter[object](), threading.Event()

    def work(name: str, command: Command) -> None:
        with in_turn(command, threading.Event()):
            running[name] += 1
            most[name] = max(most[name], running[name])
            if sum(running.values()) == at_once + 1 + 2:
                done.set()
            assert done.wait(PATIENCE)
            running[name] -= 1

    async def story() -> None:
        asked = [(1, "here", here)] * 4 + [(2, "other user", here)] + [(1, "elsewhere", elsewhere)] * 2
        await asyncio.gather(*(requests.run(waits(), user, partial(work, name, one)) for user, name, one in asked))

    asyncio.run(story())

    assert most["here"] == at_once
    assert most["other user"] == 1
