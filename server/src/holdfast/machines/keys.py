"""The service's own key pair: encrypted in the store, and in a private file only because ssh requires one."""

import os
import secrets
import uuid
from pathlib import Path

from sqlalchemy.orm import Session

from holdfast.access.vault import Vault
from holdfast.execution.ssh import HostKey
from holdfast.kit import clock
from holdfast.machines import store
from holdfast.machines.models import SshKey
from holdfast.settings import Settings
from holdfast.storage.session import Database

COMMENT = "holdfast"


def secret_context(key_uuid: str) -> str:
    return f"ssh_key:{key_uuid}:private"


class Keys:
    def __init__(self, settings: Settings, database: Database, vault: Vault) -> None:
        self.folder = settings.data_dir.absolute() / "ssh"
        self._database = database
        self._vault = vault

    def newest(self) -> SshKey:
        """The key to deploy, created on first use."""
        with self._database.reading() as session:
            key = store.newest_key(session)
        if key is not None:
            return key
        with self._database.writing() as session:
            return store.newest_key(session) or self.make(session)

    def make(self, session: Session) -> SshKey:
        from cryptography.hazmat.primitives import serialization  # takes a megabyte and is needed only once
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        pair = Ed25519PrivateKey.generate()
        public = pair.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        private = pair.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        number = uuid.uuid4().hex
        key = SshKey(
            uuid=number,
            private_key=self._vault.encrypt(private.decode(), secret_context(number)),
            public_key=f"{public.decode()} {COMMENT}-{number[:8]}",
            created_at=clock.now(),
        )
        session.add(key)
        session.flush()
        return key

    def put(self, key: SshKey, name: str) -> Path:
        """Write the private key to a file with this name, readable only by its owner, and return the path."""
        path = self.folder / name
        keep_private(path, self._vault.decrypt(key.private_key, secret_context(key.uuid)))
        return path


def fingerprint(key: SshKey) -> str:
    return HostKey.of(key.public_key).fingerprint


def keep_private(path: Path, content: str, mode: int = 0o600) -> None:
    """Create a private file atomically, unless it has this content: a power cut may have left it empty."""
    if path.exists() and path.read_text() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as stream:
        stream.write(content)
    part.rename(path)
