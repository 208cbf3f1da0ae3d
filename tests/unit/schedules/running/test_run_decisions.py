"""The judgement of a row: pure, so that every rule can be asked on its own."""

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


def test_what_nothing_speaks_against_is_released() -> None:
    assert judged() == Release()


def test_before_its_start_a_row_waits_for_it() -> None:
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
def test_a_rule_of_a_person_skips(rules: Rules, reason: Reason) -> None:
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
def test_a_repository_that_may_not_be_worked_on_skips(place: Place, reason: Reason) -> None:
    assert judged(place=place) == End(Outcome.SKIPPED, reason)


def test_an_earlier_run_skips_or_is_waited_for() -> None:
    place = Place(has_earlier_run=True, earlier_operation_id=7)
    assert judged(place=place) == End(Outcome.SKIPPED, Reason.OVERLAP, 7)
    waiting = judged(rules=replace(RULES, overlap=Overlap.QUEUE), place=place)
    assert isinstance(waiting, Wait)
    assert waiting.waiting_for is WaitingFor.EARLIER_RUN


def test_without_catch_up_the_time_counts_from_when_the_row_could_first_start() -> None:
    rules = replace(RULES, catch_up=CatchUp.SKIP, start_within=timedelta(minutes=60))
    opens = lambda moment: max(moment, at(2, 9))  # noqa: E731
    assert judged(rules=rules, now=at(2, 3), opens=opens) == Wait(at(2, 9), WaitingFor.WINDOW)
    assert judged(rules=rules, now=at(2, 10), opens=opens) == Release()
    late = judged(replace(ROW, waiting_for=WaitingFor.MACHINE), rules, now=at(2, 10, 1), opens=opens)
    assert late == End(Outcome.MISSED, Reason.MACHINE_OFFLINE)
    assert judged(rules=rules, now=at(2, 10, 1), opens=opens) == End(Outcome.MISSED, Reason.SERVICE_DOWN)


def test_a_row_by_availability_waits_for_its_machine_however_long_that_takes() -> None:
    rules = Rules(waits_without_end=True, catch_up=CatchUp.SKIP)
    for days in range(0, 400, 50):
        verdict = judged(rules=rules, place=Place(is_online=False), now=NOW + timedelta(days=days))
        assert isinstance(verdict, Wait)
        assert verdict.waiting_for is WaitingFor.MACHINE


def test_a_retry_ends_when_the_next_due_time_has_come() -> None:
    retry = replace(ROW, is_retry=True)
    assert judged(retry, now=at(3, 1, 59)) == Release()
    assert judged(retry, now=at(3, 2)) == End(Outcome.MISSED, Reason.OVERTAKEN)
