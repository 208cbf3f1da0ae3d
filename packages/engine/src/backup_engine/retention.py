"""Which archives a prune keeps, by the engines' own rules, without running one.

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
"""In place of a rule: no rule keeps the archive, but it is protected."""
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
"""Each rule of a policy and the engine's name for it, in the order in which the engines apply them."""


@frozen
class Aged:
    """When an archive was made, and the period of each rule that this falls into."""

    start: datetime
    periods: tuple[tuple[int, ...], ...]


def aged(start: datetime) -> Aged:
    start = start.astimezone(UTC)
    whole = (start.year, start.month, start.day, start.hour, start.minute, start.second)
    week = start.isocalendar()
    quarter = (start.year, (start.month - 1) // 3)
    return Aged(start, (whole, whole[:5], whole[:4], whole[:3], (week.year, week.week), whole[:2], quarter, whole[:1]))


def span_of(within: str) -> timedelta:
    """The length of a `keep_within`. Raise InvalidRequest for one that the engine refuses."""
    match = WITHIN.fullmatch(within)
    if match is None:
        raise InvalidRequest(f"keep_within {within!r} must be a span such as 12H, 7d, 4w, 6m or 1y.")
    return timedelta(hours=int(match[1]) * HOURS[match[2]])


def check_within(policy: RetentionPolicy, *, major: int) -> None:
    """Raise InvalidRequest for a `keep_within` that is no span, EngineUnsupported where the engine has no such rule."""
    if policy.keep_within and major == ENGINE_2:
        raise EngineUnsupported(
            "BorgBackup 2 does not support keep_within; use keep_last, keep_daily or another count."
        )
    if policy.keep_within:
        span_of(policy.keep_within)


def kept(
    archives: Sequence[Aged], policy: RetentionPolicy, *, major: int, within_since: datetime | None = None
) -> dict[int, str]:
    """Given archives, newest first, return the positions of those that are kept, each with the rule that keeps it.

    A rule keeps the newest archive of each of the last periods, and passes over archives that rules before it keep.
    Where there are too few periods it keeps the oldest archive as well; in major 2 the last rule alone does.
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
        told = "keep" if is_each else word
        found |= dict.fromkeys(chosen, told)
        oldest = len(archives) - 1
        if len(chosen) < count and oldest >= 0 and oldest not in found and (is_last or major != ENGINE_2):
            found[oldest] = f"{told}[oldest]"
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
    """Whether an engine's plan is what the policy says. Of archives made in the same second either may be kept.

    The clock of the engine's machine decides how far `keep_within` goes back; the archives that it keeps tell.
    """
    keep = [archive for archive in plan.keep if archive.rule != "checkpoint"]
    gone = [archive for archive in plan.prune if major == ENGINE_2 or not CHECKPOINT.search(archive.archive)]
    ordered = sorted((aged(one.time) for one in (*keep, *gone)), key=lambda archive: archive.start, reverse=True)
    young = [archive.time for archive in keep if archive.rule == WITHIN_RULE]
    since = min(young) - timedelta(seconds=1) if policy.keep_within and young else None
    ours = kept(ordered, policy, major=major, within_since=since)
    return Counter(ordered[position].start for position in ours) == Counter(archive.time for archive in keep)
