"""Results that an engine reports as log lines: what it pruned, freed and found."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from backup_engine.events import Event, LogMessage
from backup_engine.frozen import frozen
from backup_engine.results import GarbledOutput

PRUNE_LINE = re.compile(
    r"(?P<what>Keeping (?:checkpoint )?archive|Would prune|Pruning archive)"
    r"(?: \((?:rule: (?P<rule>\S+) #(?P<number>\d+)|\d+/\d+)\))?:"
    r"\s+(?P<name>.+?)\s+\w{3}, (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?P<offset> [+-]\d{4})?"
    r" \[(?P<id>[0-9a-f]{64})\]"
)
COMPACT_LINE = re.compile(
    r"(?:compaction freed about|Compaction saved) (?P<number>\d{1,9}(?:\.\d{1,9})?) (?P<unit>[kMGTPE]?B)(?: repository|\.$)"  # noqa: E501
)
UNITS: Mapping[str, int] = {unit: 1000**power for power, unit in enumerate(("B", "kB", "MB", "GB", "TB", "PB", "EB"))}
CHECK_FINISHED = re.compile(
    r"(?:Finished (?:full|partial) repository check|Archive consistency check complete), (?P<verdict>.*)"
)


@frozen
class PrunedArchive:
    """``rule`` is the rule that keeps the archive (``daily``, ``weekly[oldest]``, ``within`` …); None if it is
    removed.
    """

    archive: str
    id: str
    time: datetime
    rule: str | None


@frozen
class PruneResult:
    keep: tuple[PrunedArchive, ...]
    prune: tuple[PrunedArchive, ...]


@frozen
class CheckResult:
    """``finished`` contains the verdict of each completed part of the check, ``problems`` the reported errors."""

    finished: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def clean(self) -> bool:
        return bool(self.finished) and not self.problems


def parse_prune_lines(events: Iterable[Event]) -> PruneResult:
    """Given the events of a prune with a list, return the archives that were, or would be, kept and removed."""
    keep: list[PrunedArchive] = []
    prune: list[PrunedArchive] = []
    for event in events:
        match = PRUNE_LINE.fullmatch(event.message) if isinstance(event, LogMessage) else None
        if match is None:
            continue
        kept = match["what"].startswith("Keeping")
        rule = (match["rule"] or "checkpoint") if kept else None
        (keep if kept else prune).append(PrunedArchive(match["name"], match["id"], _prune_time(match), rule))
    return PruneResult(tuple(keep), tuple(prune))


def _prune_time(match: re.Match[str]) -> datetime:
    text = match["time"] + (match["offset"] or " +0000")
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S %z").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise GarbledOutput(f"The engine reports an impossible time for the archive {match['name']!r}.") from error


def parse_freed_bytes(events: Iterable[Event]) -> int | None:
    """Given the events of a compact, return roughly how many bytes it freed; None if it did not report that."""
    for event in events:
        match = COMPACT_LINE.search(event.message) if isinstance(event, LogMessage) else None
        if match is not None:
            return round(float(match["number"]) * UNITS[match["unit"]])
    return None


def parse_check_lines(events: Iterable[Event], most_problems: int = 1000) -> CheckResult:
    """Given the events of a check, return the verdicts of its parts and the problems found."""
    finished: list[str] = []
    problems: list[str] = []
    for event in events:
        if not isinstance(event, LogMessage):
            continue
        match = CHECK_FINISHED.match(event.message)
        if match is not None:
            finished.append(match["verdict"].rstrip("."))
        elif event.level in {"ERROR", "CRITICAL"} and len(problems) < most_problems:
            problems.append(event.message)
    return CheckResult(tuple(finished), tuple(problems))
