"""Decides what happens to a run row now: it is released, keeps waiting, or ends. Pure: no store, no clock."""

from collections.abc import Callable
from datetime import datetime, timedelta

from backup_engine.frozen import frozen
from holdfast.repositories.evidence_times import unless_ahead
from holdfast.schedules.models import CatchUp, Outcome, Overlap, Reason, WaitingFor

OpensAt = Callable[[datetime], datetime | None]
"""Given a moment, return the first moment from it on at which work may start."""

MACHINE_CHECK = timedelta(minutes=15)
"""An agent that comes online is noticed at once; this interval covers the case that it was not."""
EARLIER_RUN_CHECK = timedelta(minutes=1)


@frozen
class Row:
    """A run row, reduced to what the rules need."""

    due_at: datetime
    start_at: datetime
    waiting_for: WaitingFor | None = None
    is_manual: bool = False
    """Requested by a person: rules for unattended times do not apply."""
    is_retry: bool = False


@frozen
class Rules:
    """The schedule, reduced to what the rules need, and what applies to all schedules."""

    enabled: bool = True
    deleted: bool = False
    paused: bool = False
    snoozed_until: datetime | None = None
    catch_up: CatchUp = CatchUp.ONCE
    start_within: timedelta = timedelta(minutes=60)
    overlap: Overlap = Overlap.SKIP
    min_success_interval: timedelta | None = None
    next_due_at: datetime | None = None
    """The due time after the row's."""
    waits_without_end: bool = False
    """Availability: the row waits for its machine, however long that takes."""


@frozen
class Place:
    """The repository of the row and its machine."""

    is_target: bool = True
    is_observed: bool = False
    is_set_up: bool = True
    blackout: bool = False
    last_success: datetime | None = None
    is_online: bool = True
    """Whether the machine that opens the repository can be used."""
    machine_check: timedelta = MACHINE_CHECK
    has_earlier_run: bool = False
    earlier_operation_id: int | None = None


@frozen
class Release:
    pass


@frozen
class Wait:
    until: datetime
    waiting_for: WaitingFor


@frozen
class End:
    outcome: Outcome
    reason: Reason
    operation_id: int | None = None


Decision = Release | Wait | End


def always(moment: datetime) -> datetime | None:
    """The opening times of a schedule without windows."""
    return moment


def decide(row: Row, rules: Rules, place: Place, opens_at: OpensAt, now: datetime) -> Decision:
    """Given a row that is due to be judged, decide what happens to it."""
    if refused := _refused(row, rules, place, now):
        return End(Outcome.SKIPPED, refused)
    if now < row.start_at:
        return Wait(row.start_at, WaitingFor.START)
    if row.is_retry and rules.next_due_at is not None and now >= rules.next_due_at:
        return End(Outcome.MISSED, Reason.OVERTAKEN)
    deadline = _deadline(row, rules, opens_at)
    if deadline is not None and now > deadline:
        return too_late(row.waiting_for)
    opens = opens_at(now)
    if opens == now:
        return _start(row, rules, place, deadline, now)
    following = None if row.is_manual else rules.next_due_at
    if opens is None or (following is not None and opens >= following):
        return End(Outcome.MISSED, Reason.WINDOW_CLOSED)
    return Wait(opens, WaitingFor.WINDOW)


def _refused(row: Row, rules: Rules, place: Place, now: datetime) -> Reason | None:
    """Return the reason of the first rule that refuses the row, if any."""
    by_hand = row.is_manual and not row.is_retry
    checks = (
        (rules.deleted, Reason.DELETED),
        (not rules.enabled and not row.is_manual, Reason.DISABLED),
        (not place.is_target, Reason.NO_TARGETS),
        (not by_hand and rules.snoozed_until is not None and now < rules.snoozed_until, Reason.SNOOZED),
        (not by_hand and rules.paused, Reason.PAUSED),
        (not by_hand and place.blackout, Reason.BLACKOUT),
        (place.is_observed, Reason.OBSERVE_ONLY),
        (not place.is_set_up, Reason.SETUP_PENDING),
    )
    return next((reason for says_no, reason in checks if says_no), None)


def _deadline(row: Row, rules: Rules, opens_at: OpensAt) -> datetime | None:
    """Return until when a row of a schedule without catch-up may start, counted from when it first could."""
    if rules.catch_up is CatchUp.ONCE or rules.waits_without_end or row.is_manual or row.is_retry:
        return None
    first = opens_at(row.start_at)
    return first + rules.start_within if first is not None else None


def too_late(waited_for: WaitingFor | None) -> End:
    """Return the end of a row whose time has passed, based on what it waited for.

    If it was never judged, the service was not running.
    """
    if waited_for in (WaitingFor.MACHINE, WaitingFor.CONNECTION):
        return End(Outcome.MISSED, Reason.MACHINE_OFFLINE)
    if waited_for is WaitingFor.WINDOW:
        return End(Outcome.MISSED, Reason.WINDOW_CLOSED)
    if waited_for is WaitingFor.EARLIER_RUN:
        return End(Outcome.SKIPPED, Reason.OVERLAP)
    return End(Outcome.MISSED, Reason.SERVICE_DOWN)


def _start(row: Row, rules: Rules, place: Place, deadline: datetime | None, now: datetime) -> Decision:
    """Decide about a row that may start now as far as calendars go."""
    if not row.is_manual and not row.is_retry and _is_too_soon(rules, place, now):
        return End(Outcome.SKIPPED, Reason.TOO_SOON)
    if place.has_earlier_run and not row.is_retry:
        if rules.overlap is Overlap.SKIP:
            return End(Outcome.SKIPPED, Reason.OVERLAP, place.earlier_operation_id)
        return Wait(_no_later(now + EARLIER_RUN_CHECK, deadline), WaitingFor.EARLIER_RUN)
    if not place.is_online:
        return Wait(_no_later(now + place.machine_check, deadline), WaitingFor.MACHINE)
    return Release()


def _is_too_soon(rules: Rules, place: Place, now: datetime) -> bool:
    last = unless_ahead(place.last_success, now)
    return rules.min_success_interval is not None and last is not None and now - last < rules.min_success_interval


def _no_later(moment: datetime, deadline: datetime | None) -> datetime:
    """Return a moment no later than just after the deadline, so that its passing is noticed."""
    return moment if deadline is None else min(moment, deadline + timedelta(seconds=1))
