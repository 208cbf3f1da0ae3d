"""What backups contribute to the service, including dumps and the services that backups stop."""

from functools import partial

from holdfast.access.stored_secrets import SecretColumn
from holdfast.access.vault import VAULT
from holdfast.agents.backup_starter import BACKUP_STARTER
from holdfast.api.dependencies import DATABASE, SETTINGS
from holdfast.api.parts import Parts
from holdfast.backup import agent_backups, create_archive
from holdfast.backup.dumps import make_dumps
from holdfast.backup.dumps.models import DumpedDatabase, secret_context
from holdfast.backup.dumps.routes import routes as dump_routes
from holdfast.backup.routes import routes
from holdfast.backup.services.routes import routes as service_routes
from holdfast.backup.services.stopped_services import LOOK_SECONDS, STOPPED_SERVICES, StoppedServices
from holdfast.operations.kinds import REGISTRY, Kind
from holdfast.operations.manifest import Feature, Tick
from holdfast.repositories.location import OPENER, SSH_MACHINES


def _stopped_services(parts: Parts) -> StoppedServices:
    return StoppedServices(parts[SETTINGS].data_dir / "holds", parts[DATABASE], parts[SSH_MACHINES])


def _kinds(parts: Parts) -> tuple[Kind, ...]:
    opener = parts[OPENER]
    dump = make_dumps.kind(opener, parts[VAULT], parts[SETTINGS].database_programs)
    return create_archive.kind(opener, parts[STOPPED_SERVICES]), dump


FEATURE = Feature(
    name="backup",
    routers=(routes, dump_routes, service_routes),
    secrets=(SecretColumn(DumpedDatabase.__tablename__, "password", lambda row: secret_context(row["uuid"])),),
    provides=(
        STOPPED_SERVICES.made_by(_stopped_services),
        BACKUP_STARTER.made_by(lambda parts: partial(agent_backups.start, kind=parts[REGISTRY].kinds["backup"])),
    ),
    kinds=_kinds,
    ticks=lambda parts: (Tick("services", LOOK_SECONDS, parts[STOPPED_SERVICES].look_after, "runner"),),
)
