"""The decision about a row: a pure function, so that every rule can be tested on its own."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from holdfast.schedules.models import CatchUp, Outcome, Overlap, Reason, WaitingFor
from holdfast.schedules.running.run_decisions import End, Place, Release, Row, Rules, Wait, always, decide
from tests.unit.schedules.running.world import at

ROW = Row(due_at=at(2, 2), start_at=at(2, 2, 10))
RULES = Rules(next_due_at=at(3, 2))
NOW = at(2, 2, 10)


def judged(
    row: Row = ROW, rules: Rules = RULES, place: Place | None = None, now: Any = NOW, opens: Any = always
) -> Any:
    return decide(row, rules, place or Place(), opens, now)


def test_a_row_without_obstacles_is_released() -> None:
    assert judged() == Release()


def test_a_row_waits_for_its_start() -> None:
    assert judged(now=at(2, 2)) == Wait(at(2, 2, 10), WaitingFor.START)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (replace(RULES, deleted=True), Reason.DELETED),
        (replace(RULES, enabled=False), Reason.DISABLED),
        (replace(RULES, paused=True), Reason.PAUSED),
        (replace(RULES, snoozed_until=at(2, 3)), Reason.SNOOZED),
    ],
)
def test_a_row_is_skipped_if_its_schedule_is_deleted_disabled_paused_or_snoozed(rules: Rules, reason: Reason) -> None:
    assert judged(rules=rules) == End(Outcome.SKIPPED, reason)
    by_hand = judged(replace(ROW, is_manual=True), rules)
    assert by_hand == (End(Outcome.SKIPPED, reason) if reason is Reason.DELETED else Release())


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (Place(is_target=False), Reason.NO_TARGETS),
        (Place(is_observed=True), Reason.OBSERVE_ONLY),
        (Place(is_set_up=False), Reason.SETUP_PENDING),
        (Place(blackout=True), Reason.BLACKOUT),
    ],
)
def test_a_row_is_skipped_if_its_repository_takes_no_work(place: Place, reason: Reason) -> None:
    assert judged(place=place) == End(Outcome.SKIPPED, reason)


def test_a_row_is_skipped_or_waits_during_an_earlier_run() -> None:
    place = Place(has_earlier_run=True, earlier_operation_id=7)
    assert judged(place=place) == End(Outcome.SKIPPED, Reason.OVERLAP, 7)
    waiting = judged(rules=replace(RULES, overlap=Overlap.QUEUE), place=place)
    assert isinstance(waiting, Wait)
    assert waiting.waiting_for is WaitingFor.EARLIER_RUN


def test_without_catch_up_the_start_limit_counts_from_the_first_possible_start() -> None:
    rules = replace(RULES, catch_up=CatchUp.SKIP, start_within=timedelta(minutes=60))
    opens = lambda moment: max(moment, at(2, 9))  # noqa: E731
    assert judged(rules=rules, now=at(2, 3), opens=opens) == Wait(at(2, 9), WaitingFor.WINDOW)
    assert judged(rules=rules, now=at(2, 10), opens=opens) == Release()
    late = judged(replace(ROW, waiting_for=WaitingFor.MACHINE), rules, now=at(2, 10, 1), opens=opens)
    assert late == End(Outcome.MISSED, Reason.MACHINE_OFFLINE)
    assert judged(rules=rules, now=at(2, 10, 1), opens=opens) == End(Outcome.MISSED, Reason.SERVICE_DOWN)


def test_an_availability_row_waits_indefinitely_for_its_machine() -> None:
    rules = Rules(waits_without_end=True, catch_up=CatchUp.SKIP)
    for days in range(0, 400, 50):
        verdict = judged(rules=rules, place=Place(is_online=False), now=NOW + timedelta(days=days))
        assert isinstance(verdict, Wait)
        assert verdict.waiting_for is WaitingFor.MACHINE


def test_a_retry_ends_when_the_next_due_time_has_come() -> None:
    retry = replace(ROW, is_retry=True)
    assert judged(retry, now=at(3, 1, 59)) == Release()
    assert judged(retry, now=at(3, 2)) == End(Outcome.MISSED, Reason.OVERTAKEN)
