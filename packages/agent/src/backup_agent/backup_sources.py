"""Sources of a backup on this machine."""

import os
from collections.abc import Sequence

from backup_agent.protected_places import exclusions_of, sources_outside
from backup_jobs.host import Host
from backup_jobs.sources import Exclusions, Sources
from backup_protocol import BackupBlock


class AgentSources(Sources):
    def __init__(self, host: Host, block: BackupBlock, own_folders: tuple[str, ...], expected: int | None) -> None:
        self._host = host
        self._block = block
        self._own_folders = own_folders
        self._expected = expected

    @property
    def expected_size(self) -> int | None:
        return self._expected

    def exclusions(self) -> Exclusions:
        found = self._host.once("left-out", lambda: {"patterns": exclusions_of(self._own_folders, self._block)})
        return Exclusions(tuple(found["patterns"]))

    def outside(self) -> list[str]:
        return sources_outside(self._block)

    def missing(self, sources: Sequence[str]) -> tuple[str, ...]:
        return tuple(source for source in sources if not os.path.lexists(source))
