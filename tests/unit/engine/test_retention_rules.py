"""Our retention rules keep exactly what each engine's own functions keep."""

import json
import os
import random
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backup_engine.log_results import PrunedArchive, PruneResult
from backup_engine.requests import InvalidRequest, RetentionPolicy
from backup_engine.retention import HOURS, RULES, Aged, aged, agrees, kept, span_of
from tests.support.engines import ENGINE_2, ENGINES

ORACLE = Path(__file__).with_name("prune_oracle.py")
NOW = datetime(2026, 11, 17, 3, tzinfo=UTC)
SPANS = (60, 3 * 3600, 3 * 86400, 70 * 86400, 900 * 86400, 3000 * 86400)
NOT_IN_1_2 = "keep_quarterly"
PROGRAMS = {**ENGINES, **({"2": ENGINE_2} if ENGINE_2 is not None else {})}


def random_case(chance: random.Random, series: str) -> tuple[list[float], RetentionPolicy]:
    """Archives, newest first, some of them within the same second, and a policy that keeps something."""
    span = chance.choice(SPANS)
    ages = [chance.randrange(span) + chance.choice((0, 0, 0.25, 0.5)) for _ in range(chance.randint(1, 40))]
    ages += chance.sample(ages, min(len(ages), chance.randint(0, 2)))
    rules = [name for name, _ in RULES if series != "1.2" or name != NOT_IN_1_2]
    chosen: dict[str, Any] = {rule: chance.randint(1, 9) for rule in chance.sample(rules, chance.randint(0, 4))}
    if series != "2" and (not chosen or chance.random() < 0.2):
        chosen["keep_within"] = f"{chance.randint(1, 40)}{chance.choice(list(HOURS))}"
    return [NOW.timestamp() - age for age in sorted(ages)], RetentionPolicy(**chosen or {"keep_last": 1})


def by_the_engine(program: Path, cases: list[tuple[list[float], RetentionPolicy]]) -> list[list[int]]:
    lines = []
    for seconds, policy in cases:
        counts = {word: getattr(policy, name) for name, word in RULES if getattr(policy, name)}
        hours = span_of(policy.keep_within) / timedelta(hours=1) if policy.keep_within else None
        lines.append(json.dumps([seconds, counts, hours, NOW.timestamp()]))
    python = program.resolve().read_text().splitlines()[0].removeprefix("#!").strip()
    done = subprocess.run(
        [python, str(ORACLE)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TZ": "UTC"},
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def ours(seconds: list[float], policy: RetentionPolicy, major: int) -> list[int]:
    archives = [aged(datetime.fromtimestamp(each, UTC)) for each in seconds]
    since = NOW - span_of(policy.keep_within) if policy.keep_within else None
    return sorted(kept(archives, policy, major=major, within_since=since))


@pytest.mark.parametrize("count", [700, pytest.param(34_000, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("series", sorted(PROGRAMS))
def test_the_rules_keep_what_the_engine_keeps(series: str, count: int) -> None:
    chance = random.Random(f"{series} {count}")
    cases = [random_case(chance, series) for _ in range(count)]

    theirs = by_the_engine(PROGRAMS[series], cases)

    assert len(theirs) == count
    for (seconds, policy), expected in zip(cases, theirs, strict=True):
        assert ours(seconds, policy, int(series[0])) == expected, (policy, seconds)


def dated(hours: int) -> Aged:
    return aged(NOW - timedelta(hours=hours))


def test_a_rule_with_too_few_periods_also_keeps_the_oldest_archive() -> None:
    archives = [dated(hours) for hours in (0, 2, 4)]
    assert kept(archives, RetentionPolicy(keep_daily=3), major=1) == {
        0: "daily",
        2: "daily",
    }, "04:00 hours before is the day before"
    assert kept(archives[:2], RetentionPolicy(keep_daily=3), major=1) == {0: "daily", 1: "daily[oldest]"}


def test_with_engine_2_only_the_last_rule_keeps_the_oldest_archive() -> None:
    archives = [dated(hours) for hours in (0, 1, 2)]
    policy = RetentionPolicy(keep_last=1, keep_daily=5)
    assert sorted(kept(archives, policy, major=1)) == [0, 2]
    assert kept(archives, policy, major=2) == {0: "keep", 2: "daily[oldest]"}


@pytest.mark.parametrize("wrong", ["", "7", "d", "0d", "7x", "1234567d", "-1d"])
def test_a_span_that_no_engine_accepts_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidRequest):
        span_of(wrong)


# --- a plan of the engine -------------------------------------------------------------------------------------------


def named(days: int, rule: str | None = None) -> PrunedArchive:
    return PrunedArchive(f"a-{days}", "0" * 64, NOW - timedelta(days=days), rule)


def test_a_plan_that_follows_the_policy_agrees() -> None:
    plan = PruneResult((named(0, "daily"), named(1, "daily")), (named(2),))
    assert agrees(plan, RetentionPolicy(keep_daily=2), major=1)


@pytest.mark.parametrize(
    "plan",
    [
        PruneResult((named(0, "daily"),), (named(1), named(2))),
        PruneResult((named(1, "daily"), named(2, "daily")), (named(0),)),
        PruneResult((named(0, "daily"), named(1, "daily"), named(2, "daily")), ()),
    ],
)
def test_a_plan_that_keeps_other_archives_disagrees(plan: PruneResult) -> None:
    assert not agrees(plan, RetentionPolicy(keep_daily=2), major=1)


def test_the_clock_of_the_engines_machine_determines_what_is_within_a_span() -> None:
    plan = PruneResult((named(0, "within"), named(1, "within")), (named(2),))
    assert agrees(plan, RetentionPolicy(keep_within="36H"), major=1)
    assert agrees(plan, RetentionPolicy(keep_within="4d"), major=1), "its clock is two days ahead"
    assert not agrees(PruneResult((named(1, "within"),), (named(0),)), RetentionPolicy(keep_within="4d"), major=1)


def test_engine_1_decides_about_checkpoints_and_for_engine_2_their_names_are_ordinary() -> None:
    newest, old = (replace(one, archive="a.checkpoint") for one in (named(0, "checkpoint"), named(5)))
    plan = PruneResult((newest, named(1, "daily")), (old,))
    assert agrees(plan, RetentionPolicy(keep_daily=1), major=1)

    usual = replace(named(0, "daily"), archive="a.checkpoint"), replace(named(5), archive="b.checkpoint.1")
    assert agrees(PruneResult(usual[:1], usual[1:]), RetentionPolicy(keep_daily=1), major=2)
    assert not agrees(PruneResult(usual, ()), RetentionPolicy(keep_daily=1), major=2)
