"""Determine which archives a prune keeps, by the engines' own rules, without running an engine.

Engines run in UTC (see `environment`), so days, weeks and months are those of UTC here too.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from backup_engine.detect import EngineUnsupported
from backup_engine.frozen import frozen
from backup_engine.log_results import PruneResult
from backup_engine.requests import InvalidRequest, RetentionPolicy

CHECKPOINT = re.compile(r"\.checkpoint(\.\d+)?\Z")
WITHIN = re.compile(r"([1-9]\d{0,5})([Hdwmy])")
HOURS = {"H": 1, "d": 24, "w": 7 * 24, "m": 31 * 24, "y": 365 * 24}
KEEP_LAST, WITHIN_RULE, ENGINE_2 = "keep_last", "within", 2
PROTECTED = "protected"
"""Used in place of a rule: no rule keeps the archive, but it is protected."""
RULES = (
    (KEEP_LAST, "secondly"),
    ("keep_minutely", "minutely"),
    ("keep_hourly", "hourly"),
    ("keep_daily", "daily"),
    ("keep_weekly", "weekly"),
    ("keep_monthly", "monthly"),
    ("keep_quarterly", "quarterly_3monthly"),
    ("keep_yearly", "yearly"),
)
"""The rules of a policy with the engine's names for them, in the order in which the engines apply them."""


@frozen
class Aged:
    """When an archive was created, and the period of each rule that contains this time."""

    start: datetime
    periods: tuple[tuple[int, ...], ...]


def aged(start: datetime) -> Aged:
    start = start.astimezone(UTC)
    whole = (start.year, start.month, start.day, start.hour, start.minute, start.second)
    week = start.isocalendar()
    quarter = (start.year, (start.month - 1) // 3)
    return Aged(start, (whole, whole[:5], whole[:4], whole[:3], (week.year, week.week), whole[:2], quarter, whole[:1]))


def span_of(within: str) -> timedelta:
    """The length of a `keep_within`. Raise InvalidRequest for one that the engine would reject."""
    match = WITHIN.fullmatch(within)
    if match is None:
        raise InvalidRequest(f"keep_within {within!r} must be a span such as 12H, 7d, 4w, 6m or 1y.")
    return timedelta(hours=int(match[1]) * HOURS[match[2]])


def check_within(policy: RetentionPolicy, *, major: int) -> None:
    """Raise InvalidRequest for an invalid `keep_within`, EngineUnsupported if the engine does not have this rule."""
    if policy.keep_within and major == ENGINE_2:
        raise EngineUnsupported(
            "BorgBackup 2 does not support keep_within; use keep_last, keep_daily or another count."
        )
    if policy.keep_within:
        span_of(policy.keep_within)


def kept(
    archives: Sequence[Aged], policy: RetentionPolicy, *, major: int, within_since: datetime | None = None
) -> dict[int, str]:
    """Return the positions of the archives that are kept, each with its rule. The archives are given newest first.

    A rule keeps the newest archive of each of the latest periods, skipping archives kept by earlier rules. If there are
    too few periods, it also keeps the oldest archive; in major 2, only the last rule does.
    """
    found: dict[int, str] = {}
    if within_since is not None:
        young = (position for position, archive in enumerate(archives) if archive.start > within_since)
        found |= dict.fromkeys(young, WITHIN_RULE)
    active = [(number, *rule, count) for number, rule in enumerate(RULES) if (count := getattr(policy, rule[0]))]
    for number, name, word, count in active:
        is_each = major == ENGINE_2 and name == KEEP_LAST
        periods: Iterable[object] = range(len(archives)) if is_each else (one.periods[number] for one in archives)
        chosen = _newest_of_periods(periods, count, found)
        is_last = number == active[-1][0]
        reason = "keep" if is_each else word
        found |= dict.fromkeys(chosen, reason)
        oldest = len(archives) - 1
        if len(chosen) < count and oldest >= 0 and oldest not in found and (is_last or major != ENGINE_2):
            found[oldest] = f"{reason}[oldest]"
    return found


def _newest_of_periods(periods: Iterable[object], count: int, taken: dict[int, str]) -> list[int]:
    chosen: list[int] = []
    last: object = None
    for position, period in enumerate(periods):
        if period != last:
            last = period
            if position not in taken:
                chosen.append(position)
                if len(chosen) == count:
                    break
    return chosen


def agrees(plan: PruneResult, policy: RetentionPolicy, *, major: int) -> bool:
    """Whether an engine's plan matches the policy. Of archives created in the same second, either may be kept.

    How far `keep_within` goes back depends on the clock of the engine's machine, so it is derived from the archives
    that the rule keeps.
    """
    keep = [archive for archive in plan.keep if archive.rule != "checkpoint"]
    gone = [archive for archive in plan.prune if major == ENGINE_2 or not CHECKPOINT.search(archive.archive)]
    ordered = sorted((aged(one.time) for one in (*keep, *gone)), key=lambda archive: archive.start, reverse=True)
    young = [archive.time for archive in keep if archive.rule == WITHIN_RULE]
    since = min(young) - timedelta(seconds=1) if policy.keep_within and young else None
    ours = kept(ordered, policy, major=major, within_since=since)
    return Counter(ordered[position].start for position in ours) == Counter(archive.time for archive in keep)
