"""Creates, changes and opens remotes. Secret options are checked against the provider, obscured and encrypted."""

import json
import uuid
from collections.abc import Mapping

from backup_engine.frozen import frozen
from holdfast.access.vault import Vault
from holdfast.api.parts import Part
from holdfast.errors import Unprocessable
from holdfast.kit import clock
from holdfast.mirror.models import RcloneRemote
from holdfast.mirror.providers import Option, Provider, holds_secret
from holdfast.mirror.rclone import Access, Rclone

Value = str | int | bool | None


def secret_context(remote_uuid: str) -> str:
    return f"rclone_remote:{remote_uuid}:secrets"


@frozen
class Options:
    """The client's options, separated; None marks an option to remove."""

    plain: Mapping[str, str | None]
    secret: Mapping[str, str | None]


@frozen
class Remotes:
    rclone: Rclone
    vault: Vault

    def provider(self, name: str) -> Provider:
        """The provider of this name. Raise Unprocessable if this version of rclone lacks it."""
        found = self.rclone.providers().get(name)
        if found is None:
            raise Unprocessable(
                "rclone.unknown_provider",
                "This version of rclone has no such provider; use one of those listed by GET /api/rclone/providers.",
                provider=name,
            )
        return found

    def checked(self, provider_name: str, given: Mapping[str, Value]) -> Options:
        """Separate the client's options into plain and secret ones. Raise Unprocessable for an unknown option."""
        provider = self.provider(provider_name)
        plain: dict[str, str | None] = {}
        secret: dict[str, str | None] = {}
        for name, value in given.items():
            option = provider.options.get(name)
            if option is None:
                raise Unprocessable(
                    "rclone.unknown_option",
                    "The provider has no such option; use one of those listed by GET /api/rclone/providers.",
                    option=name,
                )
            taken = self._as_rclone_takes_it(option, value)
            is_secret = option.is_secret or (taken is not None and holds_secret(taken))
            kept, other = (secret, plain) if is_secret else (plain, secret)
            kept[name] = taken
            other[name] = None  # where the previous value may be stored
        return Options(plain, secret)

    def new(self, name: str, provider_name: str, given: Mapping[str, Value]) -> RcloneRemote:
        wanted = self.checked(provider_name, given)
        now = clock.now()
        remote = RcloneRemote(uuid=uuid.uuid4().hex, name=name, provider=provider_name, options={}, created_at=now)
        self.change(remote, wanted)
        return remote

    def change(self, remote: RcloneRemote, wanted: Options) -> None:
        """Set the given options; None removes one, others stay. Raise Unprocessable if a required one is missing."""
        options = _merged(remote.options, wanted.plain)
        secrets = _merged(self.secrets(remote), wanted.secret)
        for option in self.provider(remote.provider).options.values():
            if option.is_required and not (options.get(option.name) or secrets.get(option.name)):
                raise Unprocessable(
                    "rclone.option_missing", f"The provider requires the option {option.name}.", option=option.name
                )
        remote.options = options
        remote.secrets = self.vault.encrypt(json.dumps(secrets), secret_context(remote.uuid)) if secrets else None
        remote.updated_at = clock.now()

    def secrets(self, remote: RcloneRemote) -> dict[str, str]:
        """The decrypted secret options. Raise SecretUnreadable if the available keys cannot decrypt them."""
        if remote.secrets is None:
            return {}
        opened: dict[str, str] = json.loads(self.vault.decrypt(remote.secrets, secret_context(remote.uuid)))
        return opened

    def access(self, remote: RcloneRemote) -> Access:
        return Access(remote.provider, remote.options, self.secrets(remote))

    def _as_rclone_takes_it(self, option: Option, value: Value) -> str | None:
        if value is None or value == "":
            return None
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return self.rclone.obscure(text) if option.is_obscured else text


REMOTES = Part[Remotes]("remotes")


def _merged(old: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    merged = {**old, **changes}
    return {name: value for name, value in merged.items() if value is not None}
