"""What must hold at the end of a round, checked with evidence from outside the service's own record."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.disturbed_round import ACTIVE, Round, Started
from tests.support.paced_engine import lines_by_run
from tests.support.processes import processes_naming
from tests.support.service import Client, wait_until

KEY_IN_COMMAND = re.compile(r"\$ .*--comment=\S*holdfast:([0-9a-f]{32})")
SUCCEEDED = ("completed", "completed_with_warnings")
MOST_ATTEMPTS = 3
TIDY_SECONDS = 20.0


@dataclass
class Findings:
    """Sentences about broken promises, grouped by promise."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    overlaps: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def all(self) -> list[str]:
        return [
            f"{word}: {sentence}"
            for word in ("lost", "doubled", "overlaps", "wrong")
            for sentence in getattr(self, word)
        ]


@dataclass
class Seen:
    """An operation at its end, with its log."""

    backup: Started
    operation: dict[str, Any]
    log: list[str]

    @property
    def status(self) -> str:
        return str(self.operation["status"])

    @property
    def keys(self) -> set[str]:
        """The keys in the commands of its log: one, or none if no attempt got that far."""
        return {match[1] for line in self.log if (match := KEY_IN_COMMAND.match(line))}

    def __str__(self) -> str:
        told = (
            f"{self.operation['error_key']}: {self.operation['error_message']}" if self.operation["error_key"] else ""
        )
        return f"operation {self.operation['id']} ({self.status}, attempt {self.operation['attempt']}) {told}".strip()


def verify(played: Round) -> Findings:
    findings = Findings()
    with played.world.client() as client:
        seen = [found for backup in played.started if (found := _look(client, played, backup, findings))]
    _check_archives(played, seen, findings)
    for one in seen:
        findings.wrong.extend(_end_state(played, one))
        findings.wrong.extend(_starts(played, one))
        findings.wrong.extend(_log(played, one))
    findings.wrong.extend(played.contradictions)
    findings.overlaps.extend(played.world.engine.overlaps())
    findings.wrong.extend(_left_overs(played))
    return findings


def _look(client: Client, played: Round, backup: Started, findings: Findings) -> Seen | None:
    operation = played.operation(client, backup)
    if operation is None:
        findings.lost.append(f"operation {backup.id} was answered and is not there")
        return None
    if operation["status"] in ACTIVE:
        findings.lost.append(f"operation {backup.id} is still {operation['status']}: {operation}")
        return None
    return Seen(backup, operation, client.log_lines(int(operation["id"])))


def _check_archives(played: Round, seen: list[Seen], findings: Findings) -> None:
    counted: Counter[str] = Counter()
    for repository in played.world.repositories:
        for comment in played.world.archive_comments(repository):
            counted.update(word.removeprefix("holdfast:") for word in comment.split() if word.startswith("holdfast:"))
    for one in seen:
        if len(one.keys) > 1:
            findings.wrong.append(f"{one}: two keys in its log")
        archives = sum(counted[key] for key in one.keys)
        if archives > 1:
            findings.doubled.append(f"{one} has {archives} archives")
        elif (one.status in SUCCEEDED) != (archives == 1):
            findings.wrong.append(f"{one} has {archives} archives")
        played.world.known_keys.update(dict.fromkeys(one.keys, str(one)))
    for key in counted.keys() - played.world.known_keys.keys():
        findings.wrong.append(f"an archive carries the key {key} of no operation that was answered")


def _end_state(played: Round, one: Seen) -> Iterator[str]:
    """A failed operation needs as many hits as there are attempts; a cancelled one needs a cancel request."""
    blows = played.strikes.disturbed.get(int(one.operation["id"]), 0)
    if one.status == "cancelled" and not one.backup.cancel_asked:
        yield f"{one}, and nobody asked for that"
    if one.status == "failed" and (blows < MOST_ATTEMPTS or one.operation["error_key"] != "operations.interrupted"):
        yield f"{one} after {blows} blows"
    if one.status not in (*SUCCEEDED, "cancelled", "failed"):
        yield f"{one}: no way for a backup to end"


def _starts(played: Round, one: Seen) -> Iterator[str]:
    """Only a hit on its shim or engine justifies another start of the engine; a hit on the service never does."""
    starts = [start for key in one.keys for start in played.world.engine.starts_of(key)]
    blows = played.strikes.disturbed.get(int(one.operation["id"]), 0)
    if len(starts) > 1 + blows:
        yield f"{one}: the engine was started {len(starts)} times with {blows} blows to it"
    if one.status in SUCCEEDED and not starts:
        yield f"{one}: the engine was never started"


def _log(played: Round, one: Seen) -> Iterator[str]:
    """The numbered lines of each run, from the first to the last printed: none missing, none twice, runs in order."""
    starts = [start for key in one.keys for start in played.world.engine.starts_of(key)]
    logged = lines_by_run(one.log)
    speaking = [run for run in starts if played.world.engine.said(run) or run in logged]
    if list(logged) != speaking:
        yield f"{one}: the log holds the runs {list(logged)}, the engine has made {speaking}"
    for run, numbers in logged.items():
        said = played.world.engine.said(run)
        if numbers != list(range(1, len(numbers) + 1)) or len(numbers) not in (said, said + 1):
            yield f"{one}: of the {said} lines of run {run} the log holds {numbers}"


def _left_overs(played: Round) -> Iterator[str]:
    """Nothing of ended operations is left: no process, no spool."""
    world = played.world
    own = {service.process.pid for service in world.services.values() if service.process is not None}

    def processes() -> dict[int, str]:
        found = processes_naming(str(world.folder))
        return {pid: arguments for pid, arguments in found.items() if pid not in own}

    def spools() -> list[str]:
        return sorted(entry.name for entry in world.spools.iterdir()) if world.spools.exists() else []

    yield from _stays("processes", processes)
    yield from _stays("spools", spools)


def _stays(word: str, look: Callable[[], Collection[object]]) -> Iterator[str]:
    try:
        wait_until(lambda: not look(), TIDY_SECONDS, what=f"no {word} left")
    except AssertionError:
        yield f"{word} left over: {look()}"
