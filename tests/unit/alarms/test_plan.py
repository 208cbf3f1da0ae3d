"""The life of an alarm on a virtual clock, compared with a model that uses the whole past instead of single steps."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.alarms.kind import AlarmKind, EvaluationContext, Finding, Subject, between_thresholds, unknown
from holdfast.alarms.models import Severity
from holdfast.alarms.plan import Current, Plan, plan

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SUBJECT = Subject("repository", 1)
GOOD, WARNING, CRITICAL, BETWEEN, UNKNOWN = "good", "warning", "critical", "between", "unknown"


def _nothing(_context: EvaluationContext) -> list[Finding]:
    return []


def a_kind(raise_minutes: int = 0, clear_minutes: int = 0) -> AlarmKind:
    return AlarmKind("example", _nothing, lambda name, _evidence: name, raise_minutes * MINUTE, clear_minutes * MINUTE)


class World:
    """One subject, its alarm as the store would hold it, and what was announced."""

    def __init__(self, kind: AlarmKind) -> None:
        self.kind = kind
        self.now = START
        self.alarm: Current | None = None
        self.told: list[tuple[str, str | None]] = []
        self._next_id = 1

    def see(self, evidence: str) -> None:
        """Let a minute pass and evaluate this evidence."""
        self.now += MINUTE
        known = {SUBJECT.text: self.alarm} if self.alarm else {}
        self._apply(plan(self.kind, known, findings(evidence), self.now))

    def acknowledge(self, until: datetime | None) -> None:
        if self.alarm is not None and self.alarm.state == "open":
            self.alarm = self.alarm._replace(acknowledged_by="anna", acknowledged_until=until)

    def _apply(self, planned: Plan) -> None:
        for values in planned.added:
            assert self.alarm is None, "a second alarm for one subject"
            self.alarm = Current(
                self._next_id,
                values["subject"],
                values["severity"],
                values["state"],
                values["since"],
                values["known"],
                None,
                values["evidence"],
                None,
                None,
            )
            self._next_id += 1
        for _, values in planned.changed:
            assert self.alarm is not None
            self._change(values)
        if planned.forgotten:
            self.alarm = None
        self.told += [(news.topic.removeprefix("alarm."), news.reason) for news in planned.news]

    def _change(self, values: Mapping[str, Any]) -> None:
        assert self.alarm is not None
        kept = {name: value for name, value in values.items() if name in Current._fields}
        self.alarm = self.alarm._replace(**kept)
        if self.alarm.state == "cleared":
            self.alarm = None

    @property
    def state(self) -> str:
        return self.alarm.state if self.alarm else "none"


def findings(evidence: str) -> list[Finding]:
    return {
        GOOD: [],
        WARNING: [Finding(SUBJECT, Severity.WARNING)],
        CRITICAL: [Finding(SUBJECT, Severity.CRITICAL)],
        BETWEEN: [between_thresholds(SUBJECT)],
        UNKNOWN: [unknown(SUBJECT)],
    }[evidence]


def played(kind: AlarmKind, *evidence: str) -> World:
    world = World(kind)
    for one in evidence:
        world.see(one)
    return world


def test_bad_evidence_raises_and_good_evidence_clears() -> None:
    world = played(a_kind(), WARNING, WARNING, GOOD)

    assert world.told == [("raised", None), ("cleared", None)]
    assert world.state == "none"


def test_between_the_thresholds_nothing_changes() -> None:
    assert played(a_kind(), BETWEEN, BETWEEN).told == []
    assert played(a_kind(), WARNING, BETWEEN, BETWEEN).told == [("raised", None)]


def test_unknown_evidence_neither_raises_nor_clears_an_alarm_and_is_shown() -> None:
    assert played(a_kind(), UNKNOWN).told == []
    world = played(a_kind(), WARNING, UNKNOWN)
    assert world.told == [("raised", None)]
    assert world.alarm is not None
    assert not world.alarm.known
    world.see(WARNING)
    assert world.alarm.known


def test_an_alarm_gets_worse_and_better() -> None:
    world = played(a_kind(), WARNING, CRITICAL, CRITICAL, WARNING)

    assert world.told == [("raised", None), ("changed", "worse"), ("changed", "better")]


def test_an_acknowledged_alarm_is_silent_until_its_acknowledgement_ends() -> None:
    world = played(a_kind(), WARNING)
    world.acknowledge(world.now + 3 * MINUTE)
    for _ in range(2):
        world.see(WARNING)
    assert world.told == [("raised", None)]
    world.see(WARNING)
    assert world.told == [("raised", None), ("changed", "acknowledgement_ended")]
    assert world.alarm is not None
    assert world.alarm.acknowledged_by is None


def test_an_acknowledgement_ends_when_the_alarm_gets_worse() -> None:
    world = played(a_kind(), WARNING)
    world.acknowledge(None)
    for _ in range(100):
        world.see(WARNING)
    world.see(CRITICAL)

    assert world.told == [("raised", None), ("changed", "worse")]
    assert world.alarm is not None
    assert world.alarm.acknowledged_by is None


def test_evidence_must_be_bad_for_a_while_if_the_kind_requires_it() -> None:
    kind = a_kind(raise_minutes=10)
    assert played(kind, *[WARNING] * 10).told == []
    assert played(kind, *[WARNING] * 11).told == [("raised", None)]
    assert played(kind, *[WARNING] * 9, GOOD, *[WARNING] * 9).told == []
    assert played(kind, *[WARNING] * 9, BETWEEN, *[WARNING] * 9).told == []


def test_evidence_must_be_good_for_a_while_if_the_kind_requires_it() -> None:
    kind = a_kind(clear_minutes=10)
    assert played(kind, WARNING, *[GOOD] * 10).state == "open"
    assert played(kind, WARNING, *[GOOD] * 11).told == [("raised", None), ("cleared", None)]
    assert played(kind, WARNING, *[GOOD] * 9, BETWEEN, *[GOOD] * 9).state == "open"
    assert played(kind, WARNING, *[GOOD] * 9, WARNING, *[GOOD] * 9).told == [("raised", None)]


def modelled(past: list[str], raise_minutes: int, clear_minutes: int) -> bool:
    """Whether an alarm is open after this past: looks for the last stretch that raised and the last that cleared."""
    raised = cleared = -1
    for end in range(len(past)):
        stretch = past[max(0, end - raise_minutes) : end + 1]
        if len(stretch) == raise_minutes + 1 and all(one in (WARNING, CRITICAL) for one in stretch):
            raised = end
        quiet = past[max(0, end - clear_minutes) : end + 1]
        if len(quiet) == clear_minutes + 1 and all(one == GOOD for one in quiet):
            cleared = end
    return raised > cleared


@pytest.mark.parametrize(("raise_minutes", "clear_minutes"), [(0, 0), (3, 0), (0, 3), (2, 4)])
@settings(max_examples=200)
@given(past=st.lists(st.sampled_from([GOOD, WARNING, CRITICAL, BETWEEN, UNKNOWN]), max_size=40))
def test_any_past_ends_as_the_model_predicts(raise_minutes: int, clear_minutes: int, past: list[str]) -> None:
    world = World(a_kind(raise_minutes, clear_minutes))
    for minute, evidence in enumerate(past):
        world.see(evidence)
        expected = modelled(past[: minute + 1], raise_minutes, clear_minutes)
        assert (world.state == "open") == expected, (minute, past)
    topics = [topic for topic, _ in world.told if topic != "changed"]
    assert topics == ["raised", "cleared"] * (len(topics) // 2) + ["raised"] * (len(topics) % 2)


@settings(max_examples=300)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from([GOOD, WARNING, CRITICAL, UNKNOWN]), st.sampled_from(["", "for 3", "for ever"])),
        max_size=40,
    )
)
def test_an_acknowledged_alarm_is_announced_early_only_if_it_gets_worse(steps: list[tuple[str, str]]) -> None:
    world = World(a_kind())
    for evidence, then in steps:
        before, silent, said = world.alarm, is_silent(world), len(world.told)
        world.see(evidence)
        for topic, reason in world.told[said:]:
            if silent and topic == "changed":
                assert before is not None
                expired = before.acknowledged_until is not None and before.acknowledged_until <= world.now
                assert reason == "worse" or expired, (before, reason)
                assert reason != "worse" or before.severity == "warning"
        if then:
            world.acknowledge(world.now + 3 * MINUTE if then == "for 3" else None)


def is_silent(world: World) -> bool:
    alarm = world.alarm
    return alarm is not None and alarm.acknowledged_by is not None
