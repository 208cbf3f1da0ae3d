"""Stops services during backups that run here or by ssh, and ensures that they are started again."""

from pathlib import Path
from typing import Any

import structlog

from backup_jobs.backup import STEP
from backup_jobs.services import Control, control_here
from backup_jobs.stopped_services import ServiceJournal, ServicesToStop, unstarted
from backup_protocol import BackupBlock
from holdfast.api.parts import Part
from holdfast.operations import limits
from holdfast.operations.context import Context
from holdfast.repositories.location import SshMachines, runs_on
from holdfast.repositories.models import Repository
from holdfast.repositories.work import RepositoryWork
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.backup")

LOOK_SECONDS = 5.0
NOT_STARTED = "services_not_started"
"""The setting in which the alarm finds these services."""
HERE, SSH = "local", "ssh:"


class StoppedServices:
    """`folder` contains the journal; see `backup_jobs.stopped_services`."""

    def __init__(self, folder: Path, database: Database, machines: SshMachines) -> None:
        self._database = database
        self._machines = machines
        self._journal = ServiceJournal(folder, self._control)
        self._reported: list[dict[str, Any]] | None = None

    def of(self, context: Context, work: RepositoryWork, block: BackupBlock) -> ServicesToStop:
        """The services that an attempt at a backup stops."""
        if not block.services:
            return ServicesToStop()
        place, operation = place_of(work.repository), context.operation
        folder = str(Path(operation.spool or "") / str(operation.attempt))
        return ServicesToStop(context, self._journal, place, block.services, folder, STEP, far=place != HERE)

    def look_after(self) -> None:
        """Start services that no backup needs stopped any more. Those that fail to start are stored for the alarm."""
        reported = unstarted(self._journal.look_after())
        if reported == self._reported:
            return
        with self._database.writing() as session:
            limits.put(session, NOT_STARTED, reported)
        for service in reported:
            log.error("a service could not be started again; trying until it starts", **service)
        self._reported = reported

    def _control(self, place: str) -> Control:
        return control_here if place == HERE else self._machines.control(int(place.removeprefix(SSH)))


STOPPED_SERVICES = Part[StoppedServices]("stopped_services")


def place_of(repository: Repository) -> str:
    """The machine whose services are stopped: the one that runs the engine."""
    machine_id = runs_on(repository)
    return HERE if machine_id is None else f"{SSH}{machine_id}"
