"""Capabilities that the agent reports. Kept apart from the jobs themselves, which an idle agent does not load."""

from backup_protocol import Capability, JobKind

CAPABILITIES: tuple[str, ...] = (
    *map(str, JobKind),
    str(Capability.BACKUP_CANCEL),
    str(Capability.LOGS_STREAM),
    str(Capability.SERVICE_HOLD),
    str(Capability.FOLDERS_LOOK),
    str(Capability.ARCHIVES_PROTECTED),
    str(Capability.CHUNKS_READ),
)
