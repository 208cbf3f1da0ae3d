"""The parts of the service that repositories contribute."""

from functools import partial

from holdfast.access.stored_secrets import SecretColumn
from holdfast.access.vault import VAULT
from holdfast.api.dependencies import DATABASE, SETTINGS
from holdfast.api.parts import Parts
from holdfast.execution.engines import ENGINES
from holdfast.operations.kinds import REGISTRY
from holdfast.operations.manifest import Feature, Task, Tick, When
from holdfast.repositories.agent_register import AgentRegister
from holdfast.repositories.cloud import CLOUD_PLACES
from holdfast.repositories.corrections import Corrections
from holdfast.repositories.key_files import keep_known_keys, key_context
from holdfast.repositories.location import AGENT_ENGINES, CLOUD_ACCESS, OPENER, SSH_MACHINES, Opener, secret_context
from holdfast.repositories.lookup import REPOSITORY_LOOKUP, RepositoryLookup
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import OWN_PLACES
from holdfast.repositories.register import REGISTER, Register
from holdfast.repositories.routes import routes
from holdfast.runner.inline import INLINE_CALLS

KEYS_SECONDS = 3600.0


def _opener(parts: Parts) -> Opener:
    machines, agents, cloud = parts[SSH_MACHINES], parts[AGENT_ENGINES], parts[CLOUD_ACCESS]
    return Opener(parts[SETTINGS], parts[ENGINES], parts[VAULT], machines, agents, cloud)


def _register(parts: Parts) -> Register:
    database, inline, opener = parts[DATABASE], parts[INLINE_CALLS], parts[OPENER]
    kinds = parts[REGISTRY].kinds
    agents = AgentRegister(database, opener, kinds["init"], kinds["import"], kinds["break_lock"])
    corrections = Corrections(database, inline, opener, agents)
    return Register(database, inline, opener, agents, corrections, cloud=parts[CLOUD_PLACES])


def _tasks(parts: Parts) -> tuple[Task, ...]:
    database, opener = parts[DATABASE], parts[OPENER]
    return (
        Task(When.PREPARE, partial(opener.own_places.store, database)),
        Task(When.PREPARE, partial(keep_known_keys, database, opener.key_files)),
    )


def _ticks(parts: Parts) -> tuple[Tick, ...]:
    return (Tick("keys", KEYS_SECONDS, partial(keep_known_keys, parts[DATABASE], parts[OPENER].key_files)),)


FEATURE = Feature(
    name="repositories",
    routers=(routes,),
    secrets=(
        SecretColumn(Repository.__tablename__, "passphrase", lambda row: secret_context(row["uuid"])),
        SecretColumn(Repository.__tablename__, "keyfile", lambda row: key_context(row["uuid"])),
    ),
    provides=(
        OPENER.made_by(_opener),
        OWN_PLACES.made_by(lambda parts: parts[OPENER].own_places),
        REGISTER.made_by(_register),
        REPOSITORY_LOOKUP.made_by(lambda parts: RepositoryLookup(parts[DATABASE])),
    ),
    ticks=_ticks,
    tasks=_tasks,
)
