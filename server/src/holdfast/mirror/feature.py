"""The mirror feature: the parts it adds to the service."""

from dataclasses import replace
from functools import partial

from holdfast.access.stored_secrets import SecretColumn
from holdfast.access.vault import VAULT
from holdfast.api.dependencies import DATABASE, SETTINGS
from holdfast.api.parts import Parts
from holdfast.execution.engines import install_id
from holdfast.mirror import hydrate, sync
from holdfast.mirror.creation import MirroredPlaces
from holdfast.mirror.engine2_remotes import Engine2Remotes
from holdfast.mirror.mirrors import MIRRORS, Mirrors
from holdfast.mirror.models import RcloneRemote
from holdfast.mirror.rclone import Rclone
from holdfast.mirror.remotes import REMOTES, Remotes, secret_context
from holdfast.mirror.routes import mirror_routes, remote_routes
from holdfast.operations.kinds import Effect, Kind
from holdfast.operations.manifest import Feature, Tick
from holdfast.repositories.cloud import CLOUD_PLACES
from holdfast.repositories.location import CLOUD_ACCESS, OPENER

LOOK_SECONDS = 30.0


def _mirrors(parts: Parts) -> Mirrors:
    folder, remotes = parts[SETTINGS].data_dir, parts[REMOTES]
    return Mirrors(sync.kind(remotes, install_id(folder)), hydrate.kind(remotes, parts[OPENER]), folder.absolute())


def _places(parts: Parts) -> MirroredPlaces:
    return MirroredPlaces(parts[DATABASE], parts[REMOTES], parts[MIRRORS], parts[SETTINGS].data_dir / "cloud")


def _kinds(parts: Parts) -> tuple[Kind, ...]:
    mirrors = parts[MIRRORS]
    return replace(mirrors.sync, retry=mirrors.retry_sync), replace(mirrors.hydrate, retry=mirrors.retry_hydrate)


FEATURE = Feature(
    name="mirror",
    routers=(remote_routes, mirror_routes),
    secrets=(SecretColumn(RcloneRemote.__tablename__, "secrets", lambda row: secret_context(row["uuid"])),),
    provides=(
        REMOTES.made_by(lambda parts: Remotes(Rclone(parts[SETTINGS]), parts[VAULT])),
        CLOUD_ACCESS.made_by(lambda parts: Engine2Remotes(parts[DATABASE], parts[REMOTES])),
        MIRRORS.made_by(_mirrors),
        CLOUD_PLACES.made_by(_places),
    ),
    kinds=_kinds,
    listeners=lambda parts: ((Effect.ARCHIVES_CHANGED, parts[MIRRORS].after_archives_changed),),
    ticks=lambda parts: (
        Tick("mirrors", LOOK_SECONDS, partial(parts[MIRRORS].enqueue_due, parts[DATABASE]), "runner"),
    ),
)
