"""Collect the evidence for many repositories with a fixed number of statements."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy import select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.activity.evidence_schemas import (
    ActName,
    Attention,
    DataAge,
    EvidenceCell,
    EvidenceDay,
    Proof,
    RepositoryEvidence,
)
from holdfast.activity.verdict import (
    NO_RULES,
    WEIGHT,
    Failure,
    Judged,
    Verdict,
    allowed_days,
    is_overdue,
    judge,
    severity,
)
from holdfast.agents.models import AgentMachine
from holdfast.archives.schemas import CellName
from holdfast.archives.status_view import CARE
from holdfast.kit import clock
from holdfast.machines.models import SshConnection
from holdfast.operations import pages
from holdfast.operations.models import Operation
from holdfast.operations.pages import Ended
from holdfast.operations.status import Status
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.evidence_times import unless_ahead
from holdfast.repositories.models import Repository
from holdfast.repositories.overdue import OverdueAfter

RECURRING = tuple(kind for care in CARE for kind in care.kinds)
SHOWN_DAYS = 42
CELLS: dict[CellName, str] = {
    "backup": "last_backup",
    "check": "last_check",
    "restore_check": "last_restore_check",
    "mirror": "last_mirror",
}
KIND_OF_CELL: dict[str, str] = {"mirror": "sync"}
ACTS: dict[str, ActName] = {
    "backup_never": "back_up",
    "backup_overdue": "back_up",
    "restore_check_never": "prove",
    "restore_check_overdue": "prove",
    "check_failed": "log",
    "backup_failed": "log",
    "restore_check_failed": "log",
    "damaged": "log",
    "shut": "log",
    "setup_failed": "log",
}


@frozen
class Judgement:
    repository: Repository
    judged: Judged
    endings: Mapping[str, Ended]
    rules: Mapping[str, OverdueAfter]

    @property
    def weight(self) -> tuple[int, str, int]:
        return WEIGHT[self.judged.verdict], self.repository.name.casefold(), self.repository.id


def judge_all(
    session: Session,
    repositories: Sequence[Repository],
    rules: Mapping[int, Mapping[str, OverdueAfter]],
    reconcile_minutes: int,
) -> list[Judgement]:
    """Return every repository with its verdict, those that need attention first."""
    now = clock.now()
    newest = pages.newest_ended(session, [one.id for one in repositories], RECURRING)
    endings: dict[int, dict[str, Ended]] = defaultdict(dict)
    for (repository_id, kind), ended in newest.items():
        endings[repository_id][kind] = ended
    failures = _failures(session, newest)
    judgements = [
        Judgement(
            one,
            judge(
                one,
                endings[one.id],
                failures[one.id],
                now,
                rules=rules.get(one.id, NO_RULES),
                reconcile_minutes=reconcile_minutes,
            ),
            endings[one.id],
            rules.get(one.id, NO_RULES),
        )
        for one in repositories
    ]
    return sorted(judgements, key=lambda one: one.weight)


def _failures(session: Session, newest: Mapping[tuple[int, str], Ended]) -> Mapping[int, dict[str, Failure]]:
    found: dict[int, dict[str, Failure]] = defaultdict(dict)
    failed = [ended.id for ended in newest.values() if ended.status == Status.FAILED]
    for first in range(0, len(failed), 500):
        for one in pages.by_ids(session, failed[first : first + 500]):
            if one.repository_id is not None:
                found[one.repository_id][one.kind] = Failure(
                    one.id, one.kind, one.error_key, one.error_message, one.completed_at
                )
    return found


def counts(judgements: Sequence[Judgement]) -> dict[Verdict, int]:
    return {word: sum(one.judged.verdict == word for one in judgements) for word in WEIGHT}


def attention(judgements: Sequence[Judgement], most: int) -> list[Attention]:
    return [_attention(one) for one in judgements if one.judged.verdict != "proven"][:most]


def _attention(one: Judgement) -> Attention:
    repository, judged = one.repository, one.judged
    return Attention(
        key=f"{repository.id}:{judged.reason}",
        severity=severity(judged),
        reason=judged.reason,
        repository_id=repository.id,
        repository=repository.name,
        path=repository.path,
        since=judged.since,
        operation_id=judged.operation_id,
        error_key=judged.error_key,
        message=judged.message,
        threshold_days=judged.threshold_days,
        last_backup=repository.last_backup,
        act=ACTS.get(judged.reason, "open"),
    )


def newest_proof(session: Session, judgements: Sequence[Judgement]) -> Proof | None:
    proofs = [
        (ended.completed_at, ended.id, one.repository.id)
        for one in judgements
        if (ended := one.endings.get("restore_check")) and ended.status != Status.FAILED and ended.completed_at
    ]
    if not proofs:
        return None
    at, operation_id, repository_id = max(proofs)
    found = pages.by_ids(session, [operation_id])
    result = (found[0].result if found else None) or {}
    files, size = result.get("files_proven", result.get("files_checked")), result.get("bytes_proven")
    return Proof(operation_id=operation_id, repository_id=repository_id, at=at, files=files, bytes=size)


def data_age(judgements: Sequence[Judgement]) -> DataAge:
    now = clock.now()
    known = [moment for one in judgements if (moment := unless_ahead(one.repository.last_backup, now))]
    return DataAge(newest=max(known, default=None), oldest=min(known, default=None))


# --- the rows that are shown ----------------------------------------------------------------------------------------


def rows(session: Session, shown: Sequence[Judgement], zone: ZoneInfo) -> list[RepositoryEvidence]:
    now = clock.now()
    ids = [one.repository.id for one in shown]
    running = _running(session, ids)
    days = _days(session, ids, zone, now)
    machines = _machines(session, [one.repository for one in shown])
    return [
        RepositoryEvidence(
            id=one.repository.id,
            name=one.repository.name,
            path=one.repository.path,
            verdict=one.judged.verdict,
            reason=one.judged.reason,
            machine=machines.get(one.repository.id),
            cells=[_cell(one, cell, running[one.repository.id], now) for cell in CELLS],
            days=days[one.repository.id],
            archive_count=one.repository.archive_count,
            total_size=one.repository.total_size,
            unique_size=one.repository.unique_size,
            last_backup=one.repository.last_backup,
            running_operation_id=next(iter(running[one.repository.id].values()), None),
        )
        for one in shown
    ]


def _cell(one: Judgement, cell: CellName, running: Mapping[str, int], now: datetime) -> EvidenceCell:
    kind = KIND_OF_CELL.get(cell, cell)
    success = unless_ahead(getattr(one.repository, CELLS[cell]), now)
    ended = one.endings.get(kind)
    at, operation_id = success, ended.id if ended else None
    if kind in running:
        state, operation_id = "running", running[kind]
    elif (
        ended
        and ended.status == Status.FAILED
        and not (success and ended.completed_at and success > ended.completed_at)
    ):
        state, at = "failed", ended.completed_at
    elif success is None:
        state = "never"
    elif is_overdue(one.rules, cell, success, now):
        state = "overdue"
    else:
        state = "warned" if ended and ended.status == Status.COMPLETED_WITH_WARNINGS else "ok"
    return EvidenceCell.model_validate(
        {
            "cell": cell,
            "state": state,
            "at": at,
            "operation_id": operation_id,
            "threshold_days": allowed_days(one.rules, cell),
        }
    )


def _running(session: Session, ids: Sequence[int]) -> Mapping[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = defaultdict(dict)
    wanted = select(Operation.repository_id, Operation.kind, Operation.id).where(
        Operation.status == Status.RUNNING, Operation.repository_id.in_(ids)
    )
    for repository_id, kind, operation_id in session.execute(wanted):
        if repository_id is not None:
            found[repository_id][kind] = operation_id
    return found


def _days(session: Session, ids: Sequence[int], zone: ZoneInfo, now: datetime) -> Mapping[int, list[EvidenceDay]]:
    today = now.astimezone(zone).date()
    days = [today - timedelta(days=back) for back in range(SHOWN_DAYS - 1, -1, -1)]
    since = datetime.combine(days[0], datetime.min.time(), zone)
    made: dict[tuple[int, date], list[int | None]] = defaultdict(list)
    archives = select(Archive.repository_id, Archive.start, Archive.deduplicated_size).where(
        Archive.repository_id.in_(ids), Archive.start >= since
    )
    for repository_id, start, size in session.execute(archives):
        made[repository_id, start.astimezone(zone).date()].append(size)
    failed: dict[tuple[int, date], int] = defaultdict(int)
    backups = select(Operation.repository_id, Operation.completed_at).where(
        Operation.repository_id.in_(ids),
        Operation.kind == "backup",
        Operation.status == Status.FAILED,
        Operation.completed_at >= since,
    )
    for row in session.execute(backups):
        if row.repository_id is not None and row.completed_at is not None:
            failed[row.repository_id, row.completed_at.astimezone(zone).date()] += 1
    return {
        one: [
            EvidenceDay(
                date=day.isoformat(),
                archives=len(made.get((one, day), ())),
                new_bytes=_sum(made.get((one, day), [])),
                failed=failed.get((one, day), 0),
            )
            for day in days
        ]
        for one in ids
    }


def _sum(sizes: list[int | None]) -> int | None:
    return None if any(size is None for size in sizes) else sum(size or 0 for size in sizes)


def _machines(session: Session, repositories: Sequence[Repository]) -> dict[int, str]:
    agents = {one.agent_machine_id for one in repositories if one.agent_machine_id is not None}
    connections = {one.ssh_connection_id for one in repositories if one.ssh_connection_id is not None}
    agent_names = _names(session, AgentMachine, agents)
    connection_names = _names(session, SshConnection, connections)
    named = {
        one.id: agent_names.get(one.agent_machine_id or 0) or connection_names.get(one.ssh_connection_id or 0)
        for one in repositories
    }
    return {repository_id: name for repository_id, name in named.items() if name}


def _names(session: Session, table: type[AgentMachine] | type[SshConnection], ids: set[int]) -> dict[int, str]:
    if not ids:
        return {}
    return {row.id: row.name for row in session.execute(select(table.id, table.name).where(table.id.in_(ids)))}
