"""``borg list REPOSITORY``: list the archives."""

from backup_engine.borg1 import arguments
from backup_engine.detect import EngineUnsupported
from backup_engine.requests import ListArchivesRequest, RepositoryLocation

NAME_KEYS = "{archive}{id}{start}"
EXTRA_KEYS = "{archive}{id}{comment}{hostname}{username}{start}{end}"


def command(location: RepositoryLocation, request: ListArchivesRequest, lock_wait: int) -> tuple[str, ...]:
    """Raise EngineUnsupported if deleted archives are requested: major 1 does not keep them."""
    if request.deleted:
        raise EngineUnsupported("BorgBackup 1 does not keep deleted archives.")
    return (
        *("--log-json", "--lock-wait", str(lock_wait)),
        *("list", "--json", f"--format={NAME_KEYS if request.names_only else EXTRA_KEYS}"),
        *(("--consider-checkpoints",) if request.consider_checkpoints else ()),
        *((f"--last={arguments.natural('last', request.last, least=1)}",) if request.last is not None else ()),
        *("--", arguments.repository(location)),
    )
