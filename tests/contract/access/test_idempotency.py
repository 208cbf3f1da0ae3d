import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from sqlalchemy import insert, select

from holdfast.access import idempotency
from holdfast.access.models import IdempotencyRecord, User
from holdfast.kit import clock
from tests.contract.access.application import Service, key_of
from tests.support.service import PATIENCE


@pytest.fixture
def login(service: Service) -> dict[str, str]:
    service.add_user("anna")
    return service.log_in("anna")


def work(service: Service, login: dict[str, str], key: str | None, place: int = 1, **body: Any) -> Any:
    headers = login if key is None else {**login, "Idempotency-Key": key}
    return service.client.post(f"/probe/work/{place}", json={"subject": "x", **body}, headers=headers)


def test_without_a_key_every_request_is_executed(service: Service, login: dict[str, str]) -> None:
    assert [work(service, login, None).json()["number"] for _ in range(3)] == [1, 2, 3]


def test_a_repeated_request_gets_the_first_response_and_is_executed_only_once(
    service: Service, login: dict[str, str]
) -> None:
    first, again = work(service, login, "a"), work(service, login, "a")
    assert first.json() == again.json() == {"number": 1}
    assert (first.status_code, again.status_code) == (200, 200)
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert len(service.entries("probe.work")) == 1
    assert work(service, login, "b").json() == {"number": 2}


def test_bodies_that_differ_only_in_notation_are_the_same_request(service: Service, login: dict[str, str]) -> None:
    headers = {**login, "Idempotency-Key": "a", "Content-Type": "application/json"}
    bodies = [b'{"subject": "x", "fail": false}', b'{ "fail":false,"subject":"\\u0078"}']
    answers = [service.client.post("/probe/work/1", content=body, headers=headers) for body in bodies]
    assert [answer.json() for answer in answers] == [{"number": 1}] * 2


def test_an_excessively_nested_body_is_refused(service: Service, login: dict[str, str]) -> None:
    headers = {**login, "Idempotency-Key": "a", "Content-Type": "application/json"}
    answer = service.client.post("/probe/work/1", content=b"[" * 100_000, headers=headers)
    assert answer.status_code in (400, 422)


def test_the_same_key_with_another_body_or_path_is_a_conflict(service: Service, login: dict[str, str]) -> None:
    work(service, login, "a")
    for answer in (work(service, login, "a", subject="y"), work(service, login, "a", place=2)):
        assert (answer.status_code, key_of(answer)) == (409, "idempotency.mismatch")
    assert len(service.entries("probe.work")) == 1


def test_a_key_belongs_to_its_user(service: Service, login: dict[str, str]) -> None:
    service.add_user("bert")
    assert work(service, login, "a").json() == {"number": 1}
    assert work(service, service.log_in("bert"), "a").json() == {"number": 2}


def test_a_failed_request_leaves_nothing_behind_and_may_be_repeated(service: Service, login: dict[str, str]) -> None:
    assert work(service, login, "a", fail=True).status_code == 404
    assert service.entries("probe.work") == []
    assert work(service, login, "a").json() == {"number": 1}


def test_simultaneous_requests_with_one_key_are_executed_only_once(service: Service, login: dict[str, str]) -> None:
    start = threading.Barrier(8)

    def send(_: int) -> Any:
        start.wait(PATIENCE)
        return work(service, login, "a")

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(8)))
    assert [answer.status_code for answer in answers] == [200] * 8
    assert {answer.json()["number"] for answer in answers} == {1}
    assert len(service.entries("probe.work")) == 1


def test_a_repeated_request_returns_409_while_the_first_is_still_in_progress(
    service: Service, login: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if service.database.is_sqlite:
        pytest.skip("on SQLite the second request waits for the write lock as any writer does")
    monkeypatch.setattr(idempotency, "LOCK_WAIT", "100ms")
    with service.database.writing() as session:
        user_id = session.execute(select(User.id)).scalar_one()
        values = {"user_id": user_id, "route": "POST /probe/work/{place}", "key": "a", "request_hash": "x"}
        session.execute(insert(IdempotencyRecord).values(**values, created_at=clock.now()))
        session.flush()
        answer = work(service, login, "a")
        session.rollback()
    assert (answer.status_code, key_of(answer)) == (409, "idempotency.in_progress")
    assert answer.headers["Retry-After"] == "1"
    assert work(service, login, "a").status_code == 200


def test_a_key_is_kept_for_a_day_with_or_without_tidying(service: Service, login: dict[str, str]) -> None:
    with time_machine.travel(clock.now(), tick=False) as moment:
        work(service, login, "a")
        moment.shift(timedelta(hours=23))
        login = service.log_in("anna")
        service.access.tidy()
        assert work(service, login, "a").json() == {"number": 1}
        moment.shift(timedelta(hours=1, seconds=1))
        assert work(service, service.log_in("anna"), "a").json() == {"number": 2}


def test_tidying_removes_old_keys(service: Service, login: dict[str, str]) -> None:
    work(service, login, "a")
    service.access.tidy(clock.now() + timedelta(hours=25))
    with service.database.reading() as session:
        assert session.query(IdempotencyRecord).count() == 0


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_a_malformed_key_is_refused(service: Service, login: dict[str, str], key: str) -> None:
    assert work(service, login, key).status_code == 422
