"""Evaluate all alarms once a minute across the whole installation, using stored evidence only."""

from collections.abc import Sequence
from datetime import datetime

import structlog
from sqlalchemy import text
from sqlalchemy.orm import Session

from holdfast.alarms import store, thresholds
from holdfast.alarms.kind import AlarmKind, EvaluationContext, Subject, least_overdue
from holdfast.alarms.kinds import BY_NAME, KINDS
from holdfast.alarms.models import State
from holdfast.alarms.plan import News, Plan, plan
from holdfast.alarms.present import news_payload
from holdfast.api.parts import Part
from holdfast.kit import clock, request_priority
from holdfast.operations import limits as kernel_settings
from holdfast.operations import outbox
from holdfast.repositories.overdue import OverdueRules
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.alarms")

LAST_ROUND = "last_alarm_round"
"""The setting that stores the minute, since 1970, of the last round."""
ROUND_SECONDS = 60
CLOCK_WENT_BACK = 5
"""In minutes. A last round further in the future than this was recorded with a wrong clock."""
COURTESY_SECONDS = 2.0
"""How long in total a round yields to requests while it reads the evidence."""
ROUND_LOCK = 0x616C6172


class Rounds:
    """Runs one evaluation round per minute, in whichever process comes first."""

    def __init__(self, database: Database, rules: OverdueRules, kinds: Sequence[AlarmKind] = KINDS) -> None:
        self._database = database
        self._rules = rules
        self._kinds = kinds

    def run_if_due(self) -> bool:
        """Evaluate all kinds unless this minute's round has already run. Return whether this process ran it."""
        now = clock.now()
        minute = int(now.timestamp()) // ROUND_SECONDS
        with self._database.reading() as session:
            if not _is_due(kernel_settings.get(session, LAST_ROUND), minute):
                return False
        with self._database.writing() as session:
            _one_at_a_time(session)
            if not _is_due(kernel_settings.get(session, LAST_ROUND), minute):
                return False
            kernel_settings.put(session, LAST_ROUND, minute)
            store.keep_measurements(session)
        self.run(now, minute)
        return True

    def run(self, now: datetime, minute: int | None = None) -> None:
        """Evaluate all kinds. Evidence is read without the write lock, which is taken only to apply the changes."""
        with self._database.reading() as session, request_priority.giving_way_at_most(COURTESY_SECONDS):
            planned = self._plan(session, now)
        if planned.is_empty and not planned.still_there:
            return
        with self._database.writing() as session:
            _one_at_a_time(session)
            if minute is not None and kernel_settings.get(session, LAST_ROUND) != minute:
                log.warning("a round of alarms took longer than its minute; its findings are dropped")
                return
            _apply(session, planned, now)

    def _plan(self, session: Session, now: datetime) -> "RoundPlan":
        in_force = thresholds.in_force(session)
        overdue = self._rules.of_all(session)
        least = least_overdue(overdue)
        current = store.not_cleared(session)
        whole = RoundPlan()
        for kind in self._kinds:
            request_priority.give_way()
            known = current.get(kind.name, {})
            subjects = frozenset(Subject.parse(one).id for one in known)
            context = EvaluationContext(session, now, in_force, overdue, subjects, least)
            wanted = (
                finding
                for finding in ([] if kind.name in in_force.of_all.off else kind.find(context))
                if finding.subject.type != "repository" or kind.name not in in_force.of(finding.subject.id).off
            )
            whole.add(plan(kind, known, wanted, now))
            whole.still_there = whole.still_there or any(alarm.state == State.OPEN for alarm in known.values())
        return whole

    def tidy(self) -> None:
        with self._database.writing() as session:
            store.tidy(session, clock.now())


ROUNDS = Part[Rounds]("rounds")


class RoundPlan(Plan):
    """The combined changes of all kinds."""

    still_there: bool = False
    """Whether any open alarm exists, whose evidence may have been confirmed again."""

    def add(self, other: Plan) -> None:
        self.added += other.added
        self.changed += other.changed
        self.forgotten += other.forgotten
        self.news += other.news


def _apply(session: Session, planned: RoundPlan, now: datetime) -> None:
    store.add(session, planned.added)
    store.change(session, planned.changed)
    store.forget_watched(session, planned.forgotten)
    if planned.still_there:
        store.note_seen(session, now)
    _tell(session, planned.news)


def _tell(session: Session, news: Sequence[News]) -> None:
    if not news:
        return
    names = store.names(session, (one.subject for one in news))
    ids = store.ids_of(session, (one for one in news if one.id is None))
    for topic in dict.fromkeys(one.topic for one in news):
        rows = [
            (
                news_payload(
                    BY_NAME.get(one.kind), one, names.get(one.subject), one.id or ids[one.kind, one.subject.text]
                ),
                one.subject.repository_id,
                None,
            )
            for one in news
            if one.topic == topic
        ]
        outbox.publish_many(session, topic, rows)


def _is_due(last: int | None, minute: int) -> bool:
    return last is None or last < minute or last > minute + CLOCK_WENT_BACK


def _one_at_a_time(session: Session) -> None:
    """Ensure that rounds never change alarms at the same time. On SQLite, the write lock already does."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text(f"SELECT pg_advisory_xact_lock({ROUND_LOCK})"))
