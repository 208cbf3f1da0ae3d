"""Contacts machines that do not report to the service, to see if they answer before a run is released."""

import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.machines.models import SshConnection
from holdfast.repositories.models import Repository
from holdfast.schedules.models import ScheduleRun, WaitingFor

AT_ONCE = 64
TIME_LIMIT_SECONDS = 5.0


@frozen
class Candidate:
    """A run that waits for a machine, and the address at which the machine would answer."""

    row_id: int
    repository_id: int
    host: str
    port: int


def to_try(session: Session, now: datetime) -> list[Candidate]:
    statement = (
        select(ScheduleRun.id, Repository.id, SshConnection.host, SshConnection.port)
        .join(Repository, Repository.id == ScheduleRun.repository_id, isouter=True)
        .join(SshConnection, SshConnection.id == Repository.ssh_connection_id, isouter=True)
        .where(ScheduleRun.look_at <= now, ScheduleRun.waiting_for == WaitingFor.CONNECTION)
        .order_by(ScheduleRun.look_at, ScheduleRun.id)
        .limit(AT_ONCE)
    )
    return [Candidate(row[0], row[1] or 0, row[2] or "", row[3] or 22) for row in session.execute(statement)]


def answering(candidates: Iterable[Candidate]) -> frozenset[int]:
    """Return the repositories whose machine accepts a connection."""
    candidates = list(candidates)
    places = sorted({(candidate.host, candidate.port) for candidate in candidates})
    with ThreadPoolExecutor(max_workers=max(1, min(len(places), AT_ONCE))) as pool:
        answered = {place for place, answers in zip(places, pool.map(_answers, places), strict=True) if answers}
    return frozenset(
        candidate.repository_id for candidate in candidates if (candidate.host, candidate.port) in answered
    )


def _answers(place: tuple[str, int]) -> bool:
    if not place[0]:
        return True  # removed or no longer known: the rules will refuse it
    try:
        with socket.create_connection(place, timeout=TIME_LIMIT_SECONDS):
            return True
    except (OSError, UnicodeError):
        return False
