"""The machines feature: what ssh machines add to the service."""

from holdfast.access.stored_secrets import SecretColumn
from holdfast.access.vault import VAULT
from holdfast.api.dependencies import DATABASE, SETTINGS
from holdfast.api.parts import Parts
from holdfast.execution.engines import ENGINES
from holdfast.machines import folder_routes
from holdfast.machines.keys import secret_context
from holdfast.machines.machines import MACHINES, Machines
from holdfast.machines.models import SshKey
from holdfast.machines.routes import routes
from holdfast.operations.manifest import Feature
from holdfast.repositories.location import SSH_MACHINES


def _machines(parts: Parts) -> Machines:
    return Machines(parts[SETTINGS], parts[DATABASE], parts[VAULT], parts[ENGINES])


FEATURE = Feature(
    name="machines",
    routers=(routes, folder_routes.routes, folder_routes.probes),
    secrets=(SecretColumn(SshKey.__tablename__, "private_key", lambda row: secret_context(row["uuid"])),),
    provides=(MACHINES.made_by(_machines), SSH_MACHINES.made_by(lambda parts: parts[MACHINES])),
)
