"""From a repository's record to what the engine needs to open it."""

import os
from pathlib import Path

from backup_engine.interface import Engine
from backup_engine.requests import RepositoryLocation
from holdfast.access.vault import Vault
from holdfast.execution.engines import Engines
from holdfast.repositories.models import Repository
from holdfast.runner.inline import on_agent
from holdfast.settings import Settings


class Opener:
    """Knows how each repository is opened: engine, place and secrets."""

    def __init__(self, settings: Settings, engines: Engines, vault: Vault) -> None:
        self._keys = settings.engine_dir / ".config" / "borg" / "keys"
        self._engines = engines
        self._vault = vault

    def engine(self, repository: Repository) -> Engine:
        """Raise Unprocessable if its agent alone opens it, or this machine does not have its engine."""
        if repository.execution_target == "agent":
            raise on_agent()
        return self._engines.engine(repository.engine_version)

    def engine_of_major(self, major: int) -> Engine:
        return self._engines.engine(major)

    def location(self, repository: Repository, *, relocated_ok: bool = False) -> RepositoryLocation:
        return RepositoryLocation(
            path=repository.path,
            passphrase=self.passphrase(repository),
            encryption=repository.encryption,
            remote_path=repository.remote_path,
            relocated_ok=relocated_ok,
            unencrypted_ok=repository.unencrypted_confirmed,
        )

    def passphrase(self, repository: Repository) -> str | None:
        if repository.passphrase is None:
            return None
        return self._vault.decrypt(repository.passphrase, secret_context(repository.uuid))

    def seal(self, repository_uuid: str, passphrase: str) -> str:
        return self._vault.encrypt(passphrase, secret_context(repository_uuid))

    def keep_key_file(self, repository_uuid: str, content: str) -> Path:
        """Put an exported key where the engine looks for keys. It is protected by the passphrase itself."""
        self._keys.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = self._keys / f"holdfast-{repository_uuid}"
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
            stream.write(content if content.endswith("\n") else content + "\n")
        return file


def secret_context(repository_uuid: str) -> str:
    return f"repository:{repository_uuid}:passphrase"
