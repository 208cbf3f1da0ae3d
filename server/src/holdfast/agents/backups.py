"""The interface through which the management of agents starts backups; the backup feature implements it."""

from typing import Protocol

from sqlalchemy.orm import Session

from holdfast.access.caller import Caller
from holdfast.agents.schemas import NewBackupJob
from holdfast.api.parts import Part
from holdfast.operations.models import Operation


class BackupStarter(Protocol):
    def __call__(self, session: Session, caller: Caller, agent_machine_id: int, wanted: NewBackupJob) -> Operation:
        """Queue a backup of a repository of this agent. Raise NotFound if the agent does not own it."""
        ...


BACKUP_STARTER = Part[BackupStarter]("backup_starter")
