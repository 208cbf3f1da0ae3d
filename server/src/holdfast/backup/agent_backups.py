"""Backups of agents' repositories: starting them, and naming their archives."""

import re

from sqlalchemy.orm import Session

from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.agents.schemas import NewBackupJob
from holdfast.backup.archive_name import PLACEHOLDERS
from holdfast.backup.schemas import BackupParams
from holdfast.backup.start import enqueue
from holdfast.errors import Unprocessable
from holdfast.operations.kinds import Kind
from holdfast.operations.models import Operation
from holdfast.operations.queue import Origin
from holdfast.operations.status import Trigger
from holdfast.repositories import store
from holdfast.repositories.archive_names import safe, without

NOW = "{now:%Y-%m-%dT%H:%M:%S.%f}"
"""To the microsecond, so that no two backups of a repository get the same name."""


def engine_name(template: str, repository: str, refused: str = "") -> str:
    """Fill the template, but with the engine's placeholder for the time: the job may start long after it was queued.

    Each character of `refused` becomes a dash.
    """
    template, repository = without(refused, template), without(refused, repository)
    pieces: list[str] = []
    end = 0
    for match in PLACEHOLDERS.finditer(template):
        pieces += [_without_separators(template[end : match.start()]), _placeholder(match[1], repository)]
        end = match.end()
    return "".join([*pieces, _without_separators(template[end:])]).strip("-")


def _placeholder(inside: str, repository: str) -> str:
    word, _, form = inside.partition(":")
    if word == "repository":
        return safe(repository)
    return "{now:" + _without_separators(form) + "}" if form else NOW


def _without_separators(text: str) -> str:
    return re.sub(r"[\s/{}]+", "-", text.replace("::", "-"))


def start(session: Session, caller: Caller, agent_machine_id: int, wanted: NewBackupJob, *, kind: Kind) -> Operation:
    """Queue a backup of one of an agent's repositories."""
    repository = store.require(session, caller, wanted.repository_id, Role.OPERATOR)
    if repository.execution_target != "agent" or repository.agent_machine_id != agent_machine_id:
        raise Unprocessable("agents.other_repository", "The repository does not belong to this agent.")
    params = BackupParams(source_paths=wanted.source_paths, archive_name=wanted.archive_name)
    origin = Origin(Trigger.MANUAL, caller.user_id, caller.username)
    return enqueue(session, caller, kind, repository, params, origin)
