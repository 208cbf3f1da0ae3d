"""Background work waits for requests, but never for longer than its limit."""

import threading
import time

import pytest

from holdfast.kit import request_priority

LONG = 60.0


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pauses so long that a wait that does not end by itself is noticed."""
    monkeypatch.setattr(request_priority, "LONGEST_PAUSE_SECONDS", LONG)


def test_work_outside_of_a_giving_way_block_never_waits() -> None:
    began = time.monotonic()
    with request_priority.answering():
        request_priority.give_way()

    assert time.monotonic() - began < LONG / 2


def test_work_resumes_after_the_last_request_is_served() -> None:
    gone_on = threading.Event()

    def work() -> None:
        with request_priority.giving_way_at_most(LONG):
            request_priority.give_way()
        gone_on.set()

    with request_priority.answering():
        with request_priority.answering():
            thread = threading.Thread(target=work)
            thread.start()
        assert not gone_on.wait(0.05)
        assert request_priority.has_requests()
    assert request_priority.has_requests()  # more are expected
    assert gone_on.wait(LONG / 2)
    thread.join()


def test_work_never_waits_longer_than_its_limit_however_long_the_request_takes() -> None:
    began = time.monotonic()
    with request_priority.answering(), request_priority.giving_way_at_most(0.02):
        for _ in range(10):
            request_priority.give_way()

    assert time.monotonic() - began < LONG / 2


def test_giving_way_between_two_pieces_of_work_waits_for_pending_requests_up_to_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_priority, "LONGEST_PAUSE_SECONDS", 0.001)
    began = time.monotonic()
    with request_priority.answering():
        request_priority.give_way_for(0.02)

    assert 0.02 <= time.monotonic() - began < LONG / 2


def test_giving_way_between_two_pieces_of_work_ends_with_the_last_request() -> None:
    work = threading.Thread(target=request_priority.give_way_for, args=(LONG,))
    with request_priority.answering():
        work.start()
        work.join(0.05)
        assert work.is_alive()
    work.join(LONG / 2)
    assert not work.is_alive()

    began = time.monotonic()
    request_priority.give_way_for(LONG)
    assert time.monotonic() - began < LONG / 2
