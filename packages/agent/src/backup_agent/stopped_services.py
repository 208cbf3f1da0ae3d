"""Services stopped by backups on this machine: check which may be stopped, and restart them without a request.

The agent decides, as the service may be compromised: `allow` in `[services]` of `config.toml` lists the units.
"""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path

from backup_jobs.backup import STEP
from backup_jobs.engine_host import EngineHost
from backup_jobs.services import Control, control_here, is_unit_name
from backup_jobs.stopped_services import ServiceJournal, ServicesToStop, StoppedService
from backup_protocol import BackupBlock, UnstartedService

log = logging.getLogger(__name__)

HERE = "local"
LOOK_SECONDS = 5.0
MOST_REPORTED = 20
REFUSED = (
    "This machine does not allow backups to stop {names}. Its owner can add them to allow in [services] of "
    "config.toml, and restart the agent."
)


class StoppedServices:
    def __init__(
        self, folder: Path, allowed: Sequence[str], stopping: threading.Event, control: Control = control_here
    ) -> None:
        self._allowed = frozenset(allowed)
        self._stopping = stopping
        self._journal = ServiceJournal(folder, lambda _place: control)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.not_started: tuple[UnstartedService, ...] = ()

    @property
    def is_busy(self) -> bool:
        """Whether any service is currently stopped."""
        return self._journal.any()

    def of(self, host: EngineHost, block: BackupBlock) -> ServicesToStop:
        """The services that this job stops; from now on the agent watches them and restarts them if needed."""
        if not block.services:
            return ServicesToStop()
        refused = [name for name in block.services if name not in self._allowed or not is_unit_name(name)]
        if refused:
            return ServicesToStop(names=block.services, refusal=REFUSED.format(names=", ".join(map(ascii, refused))))
        self.look_after()
        return ServicesToStop(host, self._journal, HERE, block.services, str(host.folder), STEP)

    def look_after(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._look_forever, name="services", daemon=True)
                self._thread.start()

    def _look_forever(self) -> None:
        while not self._stopping.is_set():
            try:
                self._note(self._journal.look_after())
            except Exception:  # an error in one round must not end the loop
                log.exception("Stopped services could not be checked; retrying.")
            self._stopping.wait(LOOK_SECONDS)

    def _note(self, failed: Sequence[StoppedService]) -> None:
        reported = tuple(
            UnstartedService(service.name, (service.error or "")[:300]) for service in failed[:MOST_REPORTED]
        )
        for service in reported:
            if service not in self.not_started:
                log.error("%s could not be restarted; retrying until it starts: %s", service.name, service.error)
        self.not_started = reported
