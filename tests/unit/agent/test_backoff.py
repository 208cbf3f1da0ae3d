"""Waiting between retries."""

from backup_agent.backoff import Backoff


def test_each_failure_doubles_the_wait_up_to_five_minutes() -> None:
    backoff = Backoff(chance=lambda: 1.0)

    assert [backoff.failed() for _ in range(11)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


def test_waits_are_spread_randomly_but_never_below_half() -> None:
    assert Backoff(chance=lambda: 0.0).failed() == 0.5
    waits = {Backoff().failed() for _ in range(50)}
    assert len(waits) > 25
    assert all(0.5 <= wait <= 1.0 for wait in waits)


def test_a_success_resets_the_wait() -> None:
    backoff = Backoff(chance=lambda: 1.0)
    for _ in range(8):
        backoff.failed()

    backoff.succeeded()

    assert backoff.failures == 0
    assert backoff.failed() == 1


def test_a_wait_requested_by_the_service_is_respected_within_bounds() -> None:
    assert 20 <= Backoff().failed(20) <= 22
    assert Backoff().failed(10**9) <= 330


def test_thousands_of_failures_do_not_overflow() -> None:
    backoff = Backoff(chance=lambda: 1.0)

    assert max(backoff.failed() for _ in range(5000)) == 300
