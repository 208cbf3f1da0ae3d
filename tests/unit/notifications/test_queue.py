"""The delivery queue: at least once under one id, in order, without holding up others or losing messages."""

import threading
from datetime import timedelta

import pytest
import time_machine
from sqlalchemy import select

from holdfast.alarms import thresholds
from holdfast.alarms.kind import EvaluationContext, Finding
from holdfast.alarms.kinds import notifications_failing
from holdfast.kit import clock
from holdfast.notifications.deliver import http_request
from holdfast.notifications.deliver.queue import BACK_OFF_SECONDS, LEASE_SECONDS
from holdfast.notifications.events import grouping
from holdfast.operations.models import OutboxEntry
from tests.support.receivers import Received, WebReceiver, web_receiver
from tests.support.service import wait_until
from tests.support.stores import statements
from tests.unit.notifications.world import SECRET, World


def every(world: World, receiver: WebReceiver, **more: object) -> int:
    world.rule(send="every", least_severity="info", **more)
    return world.webhook(receiver.url)


def titles(receiver: WebReceiver) -> list[str]:
    return [item["title"] for item in receiver.items]


def test_each_event_arrives_once_signed_and_in_order(world: World, receiver: WebReceiver) -> None:
    every(world, receiver)
    for number in range(20):
        world.ends("failed", repository=number, name=f"r{number}")
    world.flow()

    assert titles(receiver) == [f"Backup of r{number} failed" for number in range(20)]
    assert len({each.id for each in receiver.received}) == 20
    for each in receiver.received:
        assert each.verified(SECRET)["type"] == "backup.failed"


def test_the_message_of_a_killed_sender_is_sent_again_with_the_same_id(world: World, receiver: WebReceiver) -> None:
    every(world, receiver)
    world.ends("failed")
    world.read()
    first = world.notifications.queue.claim()
    assert first is not None
    assert world.notifications.destinations.send(first.destination_id, first.body, first.uuid).ok
    assert world.notifications.queue.claim() is None, "it is leased"
    with world.later(LEASE_SECONDS + 1):
        assert world.send() == 1

    assert [each.id for each in receiver.received] == [f"msg_{first.uuid}"] * 2
    assert receiver.received[0].body == receiver.received[1].body
    assert [delivery.state for delivery in world.deliveries()] == ["sent"]


def test_a_queue_without_due_messages_is_not_queried_again_until_something_is_committed(
    world: World, receiver: WebReceiver
) -> None:
    """On SQLite; a PostgreSQL server could not tell it for less than a query."""
    every(world, receiver)
    world.flow()
    with statements(world.database) as made:
        assert world.notifications.queue.claim() is None
    assert bool(made) is not world.database.is_sqlite

    world.ends("failed")
    world.flow()
    assert titles(receiver) == ["Backup of photos failed"]


def test_a_sender_that_lost_its_lease_changes_nothing(world: World, receiver: WebReceiver) -> None:
    from holdfast.notifications.deliver.result import Result

    every(world, receiver)
    world.ends("failed")
    world.read()
    slow = world.notifications.queue.claim()
    assert slow is not None
    with world.later(LEASE_SECONDS + 1):
        world.send()
        world.notifications.queue.record(slow, Result(ok=False, message="late"))

    assert [(delivery.state, delivery.last_error) for delivery in world.deliveries()] == [("sent", None)]


def test_one_message_is_in_flight_for_each_destination(world: World, receiver: WebReceiver) -> None:
    every(world, receiver)
    world.webhook(receiver.url, "second")
    for number in range(3):
        world.ends("failed", repository=number)
    world.read()

    claimed = [world.notifications.queue.claim() for _ in range(3)]

    assert {each.destination_id for each in claimed if each is not None} == {1, 2}
    assert claimed[2] is None


def test_while_one_sender_waits_for_a_receiver_another_looks_for_messages(world: World, receiver: WebReceiver) -> None:
    with web_receiver() as slow:
        slow.stall = threading.Event()
        for name, url, events in (("quick", receiver.url, "backup.*"), ("slow", slow.url, "check.*")):
            world.rule(name, events=[events], destination_ids=[world.webhook(url, name)])
        world.notifications.queue.start()
        world.ends("failed", name="first")
        world.read()
        wait_until(lambda: len(receiver.items) == 1, what="the quick receiver has its first message")
        world.ends("failed", kind="check")
        world.read()
        wait_until(lambda: attempts(world) == 1, what="a sender waits for the slow receiver")
        world.ends("completed_with_warnings", name="second")
        world.read()
        wait_until(
            lambda: len(receiver.items) > 1, http_request.SECONDS / 2, what="the quick receiver has its second message"
        )
        world.supervisor.stop()


def attempts(world: World) -> int:
    return sum(delivery.attempts for delivery in world.deliveries() if delivery.destination_id == 2)


def test_a_failing_destination_keeps_its_order_and_does_not_hold_up_the_others(
    world: World, receiver: WebReceiver
) -> None:
    with web_receiver() as broken:
        broken.answer = lambda _got: (500, {})
        every(world, receiver)
        world.webhook(broken.url, "broken")
        for number in range(5):
            world.ends("failed", repository=number, name=f"r{number}")
        world.flow()
        assert len(receiver.items) == 5
        assert [delivery.attempts for delivery in world.deliveries() if delivery.destination_id == 2] == [1, 0, 0, 0, 0]
        broken.answer = lambda _got: (204, {})
        with world.later(60):
            world.send()

        assert titles(broken) == titles(receiver)


def test_an_outage_of_six_hours_loses_nothing_and_keeps_the_order(world: World, receiver: WebReceiver) -> None:
    """On a clock that the test moves: events every ten minutes, attempts only when they are due."""
    every(world, receiver)
    attempts = 0
    down = True

    def answer(_got: Received) -> tuple[int, dict[str, str]]:
        nonlocal attempts
        attempts += 1
        return (503, {}) if down else (204, {})

    receiver.answer = answer
    begin = clock.now()
    with time_machine.travel(begin, tick=False) as traveller:
        for step in range(36):
            world.ends("failed", repository=step, name=f"r{step}")
            world.flow()
            traveller.shift(timedelta(minutes=10))
        assert attempts <= 7, "back-off: an outage is not hammered"
        down = False
        for _ in range(24):
            traveller.shift(timedelta(hours=1))
            world.flow()

    assert titles(receiver) == [f"Backup of r{step} failed" for step in range(36)]
    assert {delivery.state for delivery in world.deliveries()} == {"sent"}


def test_retry_after_is_obeyed(world: World, receiver: WebReceiver) -> None:
    receiver.answer = lambda _got: (429, {"Retry-After": "900"})
    every(world, receiver)
    world.ends("failed")
    world.flow()

    (delivery,) = world.deliveries()
    assert 890 < (delivery.next_attempt_at - clock.now()).total_seconds() <= 900


def test_a_receiver_that_is_gone_is_disabled_and_gets_nothing_more(world: World, receiver: WebReceiver) -> None:
    receiver.answer = lambda _got: (410, {})
    destination = every(world, receiver)
    for number in range(3):
        world.ends("failed", repository=number)
    world.flow()

    gone = world.the_destination(destination)
    assert (gone.enabled, gone.disabled_reason) == (False, "gone")
    assert [delivery.state for delivery in world.deliveries()] == ["failed"] * 3
    world.ends("failed", repository=9)
    world.flow()
    assert len(world.deliveries()) == 3


def test_after_three_days_a_message_fails_and_the_other_destinations_are_notified(
    world: World, receiver: WebReceiver
) -> None:
    with web_receiver() as broken:
        broken.answer = lambda _got: (500, {})
        every(world, receiver)
        world.webhook(broken.url, "broken")
        world.ends("failed")
        with time_machine.travel(clock.now(), tick=False) as traveller:
            for _ in range(12):
                world.flow()
                traveller.shift(timedelta(hours=12))
            world.flow()

    states = {delivery.destination_id: delivery.state for delivery in world.deliveries()[:2]}
    assert states == {1: "sent", 2: "failed"}
    assert titles(receiver)[-1] == "Messages to broken are not delivered"
    assert len(world.deliveries()) == 3, "the broken one is not told of itself"


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_a_refused_message_fails_at_once_and_the_next_one_is_sent(
    world: World, receiver: WebReceiver, status: int
) -> None:
    destination = every(world, receiver)
    receiver.answer = lambda got: (status, {}) if b"odd" in got.body else (204, {})
    world.ends("failed", repository=1, name="odd")
    world.ends("failed", repository=2, name="important")
    world.flow()

    assert titles(receiver) == ["Backup of important failed"]
    refused, _ = world.deliveries()
    assert (refused.state, refused.attempts, refused.ended_at is not None) == ("failed", 1, True)
    assert refused.last_error == f"The receiver answered {status}."
    assert world.the_destination(destination).failing_since is None, "the next message was delivered"


@pytest.mark.parametrize(
    ("status", "headers"),
    [*((status, {}) for status in (302, 401, 403, 404, 408, 409, 425, 429, 500)), (400, {"Retry-After": "60"})],
)
def test_a_message_that_may_be_accepted_later_is_kept(
    world: World, receiver: WebReceiver, status: int, headers: dict[str, str]
) -> None:
    every(world, receiver)
    receiver.answer = lambda _got: (status, headers)
    world.ends("failed")
    world.flow()

    assert [delivery.state for delivery in world.deliveries()] == ["waiting"]


def test_a_destination_that_refuses_every_message_is_reported_once_and_alarmed_until_one_is_delivered(
    world: World, receiver: WebReceiver
) -> None:
    with web_receiver() as broken:
        broken.answer = lambda _got: (500, {})
        world.rule()
        world.webhook(receiver.url)
        failing = world.webhook(broken.url, "broken")
        with time_machine.travel(clock.now(), tick=False) as traveller:
            for repository, status in enumerate((500, 422, 422, 422)):
                broken.answer = lambda _got, status=status: (status, {})  # type: ignore[misc]
                world.ends("failed", repository=repository)
                world.flow()
                traveller.shift(timedelta(hours=1))
            assert [finding.subject.id for finding in alarmed(world)] == [failing]
            broken.answer = lambda _got: (204, {})
            world.ends("failed", repository=9)
            world.flow()
            assert alarmed(world) == []
            world.flow()

    about = [title for title in titles(receiver) if "broken" in title]
    assert about == ["Messages to broken are not delivered", "Recovered: Messages to broken are not delivered"]


def alarmed(world: World) -> list[Finding]:
    with world.database.reading() as session:
        context = EvaluationContext(session, clock.now(), thresholds.in_force(session), {})
        return list(notifications_failing.find(context))


def test_destinations_that_refuse_everything_do_not_report_each_other_without_end(
    world: World, receiver: WebReceiver
) -> None:
    receiver.answer = lambda _got: (422, {})
    every(world, receiver)
    world.webhook(receiver.url, "second")
    world.ends("failed")
    for _ in range(10):
        world.flow()

    assert len(world.deliveries()) == 4, "the failure to both, and the failure of each to the other"


def test_the_back_off_grows_to_a_day() -> None:
    assert BACK_OFF_SECONDS == (5, 60, 300, 1800, 7200, 21600, 43200, 86400)


# --- a clock that was ahead -------------------------------------------------------------------------------------------


AHEAD = pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(days=365)], ids=["an hour", "a year"])


@AHEAD
def test_a_message_sent_while_the_clock_was_ahead_delays_no_other(
    world: World, receiver: WebReceiver, ahead: timedelta
) -> None:
    every(world, receiver, group_seconds=30)
    with time_machine.travel(clock.now(), tick=False) as traveller:
        traveller.shift(ahead)
        world.ends("failed", name="first")
        world.flow()
        traveller.shift(-ahead)
        world.ends("failed", name="second")
        world.flow()

    assert titles(receiver) == ["Backup of first failed", "Backup of second failed"]


@AHEAD
def test_an_attempt_that_failed_while_the_clock_was_ahead_is_repeated_with_the_usual_back_off(
    world: World, receiver: WebReceiver, ahead: timedelta
) -> None:
    destination = every(world, receiver)
    receiver.answer = lambda _got: (500, {})
    with time_machine.travel(clock.now(), tick=False) as traveller:
        traveller.shift(ahead)
        world.ends("failed", name="first")
        world.flow()
        traveller.shift(-ahead)
        assert world.flow() == 1
        assert world.flow() == 0, "it is not hammered"
        assert world.the_destination(destination).failing_since == clock.now()
        traveller.shift(timedelta(days=3))
        assert world.flow() == 1

    assert [delivery.state for delivery in world.deliveries()] == ["failed"]


@AHEAD
def test_a_lease_taken_while_the_clock_was_ahead_has_expired(
    world: World, receiver: WebReceiver, ahead: timedelta
) -> None:
    every(world, receiver)
    with time_machine.travel(clock.now(), tick=False) as traveller:
        traveller.shift(ahead)
        world.ends("failed")
        world.read()
        assert world.notifications.queue.claim() is not None
        traveller.shift(-ahead)
        world.flow()

    assert titles(receiver) == ["Backup of photos failed"]


# --- grouping and quiet hours -----------------------------------------------------------------------------------------


def test_the_first_message_is_sent_immediately_and_later_ones_are_grouped(world: World, receiver: WebReceiver) -> None:
    every(world, receiver, group_seconds=30)
    world.ends("failed", repository=0)
    world.flow()
    for number in range(1, 61):
        world.ends("failed", repository=number)
    assert world.flow() == 0
    with world.later(31):
        assert world.send() == 1

    assert [len(each.json["data"]["items"]) for each in receiver.received] == [1, 50]
    second = receiver.received[1].json
    assert second["data"]["more"] == 10
    assert second["type"] == "group"
    assert second["data"]["subject"].endswith("and 59 more")


def test_a_message_is_never_larger_than_20_kilobytes(world: World, receiver: WebReceiver) -> None:
    every(world, receiver, group_seconds=30)
    for number in range(40):
        world.ends("failed", repository=number, name="n" * 190, error_message="m" * 5000)
    world.flow()
    with world.later(31):
        world.send()

    sizes = [len(each.body) for each in receiver.received]
    assert max(sizes) <= 20_000
    data = receiver.received[-1].json["data"]
    assert len(data["items"]) + data["more"] == 39, "what does not fit is counted"


@pytest.mark.usefixtures("receiver")
def test_a_full_queue_counts_further_events_instead_of_growing(
    world: World, receiver: WebReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouping, "MOST_WAITING", 3)
    every(world, receiver)
    for number in range(60):
        world.ends("failed", repository=number)
    world.read()

    assert len(world.deliveries()) == 3
    assert sum(len(delivery.items) + delivery.more for delivery in world.deliveries()) == 60


QUIET = {"from": "22:00", "to": "06:00", "timezone": "Europe/Berlin"}


def test_quiet_hours_group_warnings_until_their_end_and_let_critical_messages_through(
    world: World, receiver: WebReceiver
) -> None:
    every(world, receiver, quiet=QUIET)
    with time_machine.travel("2026-11-16T22:00:00+00:00", tick=False) as traveller:  # 23:00 there
        world.ends("completed_with_warnings", repository=1, name="one")
        world.ends("failed", repository=2, name="two")
        world.ends("completed_with_warnings", repository=3, name="three")
        world.flow()
        assert titles(receiver) == ["Backup of two failed"]
        traveller.move_to("2026-11-17T04:59:00+00:00")
        assert world.flow() == 0
        traveller.move_to("2026-11-17T05:00:00+00:00")
        assert world.flow() == 1

    assert titles(receiver)[1:] == [
        "Backup of one completed with warnings",
        "Backup of three completed with warnings",
    ]


def test_each_delivery_is_reported_once_to_the_counters_when_it_ends(world: World, receiver: WebReceiver) -> None:
    every(world, receiver)
    receiver.answer = lambda _got: (500, {})
    world.ends("failed")
    world.flow()
    assert ended_deliveries(world) == [], "it will be tried again"
    receiver.answer = lambda _got: (204, {})
    with world.later(60):
        world.send()
    assert ended_deliveries(world) == [{"kind": "webhook", "state": "sent"}]


def ended_deliveries(world: World) -> list[dict[str, object]]:
    wanted = select(OutboxEntry).where(OutboxEntry.topic == "notification.delivery").order_by(OutboxEntry.id)
    with world.database.reading() as session:
        return [row.payload for row in session.scalars(wanted)]
