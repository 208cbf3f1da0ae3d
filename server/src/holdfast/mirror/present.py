"""Presents remotes, providers and mirrors as their payloads."""

from sqlalchemy.orm import Session

from holdfast.mirror import store
from holdfast.mirror.models import RcloneRemote, RepositoryMirror
from holdfast.mirror.providers import Option, Provider, has_secret_name, holds_secret
from holdfast.mirror.remotes import Remotes
from holdfast.mirror.schemas import MirrorAnswer, ProviderAnswer, ProviderOption, RemoteAnswer

COPIED_OF_REMOTE = ("id", "name", "provider", "created_at", "updated_at")
COPIED_OF_MIRROR = (
    *("repository_id", "remote_id", "path", "mode", "interval_minutes", "bandwidth_limit_kib"),
    *("shrink_threshold_percent", "verify", "verify_sample", "last_sync_at", "verified_at", "verified_by"),
)


def provider_answer(provider: Provider) -> ProviderAnswer:
    options = [_option(option) for option in provider.options.values()]
    return ProviderAnswer(name=provider.name, description=provider.description, options=options)


def _option(option: Option) -> ProviderOption:
    return ProviderOption.from_row(
        option, required=option.is_required, secret=option.is_secret, advanced=option.is_advanced
    )


def remote_answer(session: Session, remotes: Remotes, remote: RcloneRemote) -> RemoteAnswer:
    # An option stored before it counted as secret may be among the plain ones.
    hidden = {name for name, value in remote.options.items() if has_secret_name(name) or holds_secret(value)}
    return RemoteAnswer(
        **{name: getattr(remote, name) for name in COPIED_OF_REMOTE},
        options={name: value for name, value in remote.options.items() if name not in hidden},
        secret_options=sorted({*remotes.secrets(remote), *hidden}),
        repository_ids=store.users_of(session, remote.id),
    )


def mirror_answer(session: Session, mirror: RepositoryMirror, sync_operation_id: int | None = None) -> MirrorAnswer:
    mirrored = mirror.mirrored or {}
    return MirrorAnswer(
        **{name: getattr(mirror, name) for name in COPIED_OF_MIRROR},
        remote=store.remote(session, mirror.remote_id).name,
        mirrored_bytes=mirrored.get("bytes"),
        mirrored_files=mirrored.get("files"),
        sync_operation_id=sync_operation_id,
    )
