"""The parts of the service that the cloud mirror contributes."""

from dataclasses import dataclass, replace

from fastapi import FastAPI

from holdfast.access import stored_secrets
from holdfast.access.vault import Vault
from holdfast.execution.engines import install_id
from holdfast.mirror import hydrate, sync
from holdfast.mirror.creation import MirroredPlaces
from holdfast.mirror.mirrors import Mirrors
from holdfast.mirror.models import RcloneRemote
from holdfast.mirror.native import NativeRemotes
from holdfast.mirror.program import Rclone
from holdfast.mirror.remotes import Remotes, secret_context
from holdfast.mirror.routes import mirror_routes, remote_routes
from holdfast.operations.kinds import Effect, Kind, Listener
from holdfast.repositories.location import Opener
from holdfast.settings import Settings
from holdfast.storage.session import Database

ROUTERS = (remote_routes, mirror_routes)


@dataclass(frozen=True, slots=True)
class CloudMirror:
    remotes: Remotes
    mirrors: Mirrors
    places: MirroredPlaces

    @property
    def kinds(self) -> tuple[Kind, ...]:
        mirrors = self.mirrors
        return replace(mirrors.sync, again=mirrors.sync_again), replace(mirrors.hydrate, again=mirrors.hydrate_again)

    @property
    def listeners(self) -> tuple[tuple[Effect, Listener], ...]:
        return ((Effect.ARCHIVES_CHANGED, self.mirrors.after_archives_changed),)


def native_remotes(settings: Settings, database: Database, vault: Vault) -> NativeRemotes:
    """How engines reach remotes directly: needed by all code that opens repositories."""
    return NativeRemotes(database, Remotes(Rclone(settings), vault))


def build(settings: Settings, database: Database, remotes: Remotes, opener: Opener) -> CloudMirror:
    mirrors = Mirrors(
        sync.kind(remotes, install_id(settings.data_dir)), hydrate.kind(remotes, opener), settings.data_dir.absolute()
    )
    return CloudMirror(remotes, mirrors, MirroredPlaces(database, remotes, mirrors, settings.data_dir / "cloud"))


def install(app: FastAPI, cloud_mirror: CloudMirror) -> None:
    app.state.remotes = cloud_mirror.remotes
    app.state.mirrors = cloud_mirror.mirrors


def register_secrets() -> None:
    """Register the secrets of remotes for the key rotation."""
    stored_secrets.register(
        stored_secrets.SecretColumn(RcloneRemote.__tablename__, "secrets", lambda row: secret_context(row["uuid"]))
    )
