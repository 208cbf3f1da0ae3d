"""The parts of the service that scripts contribute."""

from datetime import timedelta
from functools import partial

from holdfast.access.stored_secrets import SecretColumn
from holdfast.access.vault import VAULT
from holdfast.api.dependencies import DATABASE
from holdfast.kit import clock
from holdfast.operations.manifest import Feature, Task, When
from holdfast.operations.step_rules import SCRIPT_USES
from holdfast.repositories.location import SSH_MACHINES
from holdfast.scripts import store
from holdfast.scripts.library import LIBRARY, Library
from holdfast.scripts.models import ScriptSecrets
from holdfast.scripts.parameters import Secrets, secret_context
from holdfast.scripts.routes import routes
from holdfast.scripts.run import Execution
from holdfast.storage.session import Database

KEPT = timedelta(days=1)


def tidy(database: Database, library: Library) -> None:
    """Delete secrets that nothing uses any more."""
    with database.writing() as session:
        used = {str(use.step["secret_id"]) for use in library.find_uses(session) if use.step.get("secret_id")}
        store.forget_secrets(session, used, clock.now() - KEPT)


FEATURE = Feature(
    name="scripts",
    routers=(routes,),
    secrets=(SecretColumn(ScriptSecrets.__tablename__, "sealed", lambda row: secret_context(row["uuid"])),),
    provides=(LIBRARY.made_by(lambda parts: Library(Secrets(parts[VAULT]), parts[SCRIPT_USES])),),
    kinds=lambda parts: (Execution(parts[LIBRARY].secrets, parts[SSH_MACHINES]).kind(),),
    tasks=lambda parts: (Task(When.TIDY, partial(tidy, parts[DATABASE], parts[LIBRARY])),),
)
