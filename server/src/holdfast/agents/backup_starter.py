"""The interface for starting backups on agents. The backup feature implements it."""

from typing import Protocol

from sqlalchemy.orm import Session

from holdfast.access.caller import Caller
from holdfast.agents.schemas import NewBackupJob
from holdfast.api.parts import Part
from holdfast.operations.models import Operation


class BackupStarter(Protocol):
    def __call__(self, session: Session, caller: Caller, agent_machine_id: int, wanted: NewBackupJob) -> Operation:
        """Queue a backup of one of this agent's repositories. Raise NotFound if the repository is not one of them."""
        ...


BACKUP_STARTER = Part[BackupStarter]("backup_starter")
