"""Encryption of stored secrets: AES-256-GCM, with a key kept outside the database."""

import base64
import binascii
import secrets
import threading
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from fastapi import Depends

from holdfast.access import key_file
from holdfast.access.key_file import BadKey, Key
from holdfast.api.parts import Part
from holdfast.errors import Conflict
from holdfast.settings import Settings

VERSION = "v1"
NONCE_BYTES = 12
SIGNING_PURPOSE = b"holdfast access token signature"
COOKIE_PURPOSE = b"holdfast browser session cookie"


class SecretUnreadable(Conflict):
    """A stored secret cannot be decrypted: its key is missing, or the value was altered or belongs to another row."""

    def __init__(self, reason: str) -> None:
        super().__init__("secrets.unreadable", f"A stored secret cannot be opened: {reason}.")


class Vault:
    """Encrypts and decrypts with the configured keys. Each value names its key, so several keys may be in use.

    The context names the value and its owner (``repository:7:passphrase``). A value decrypts only in its own context,
    so one that was copied to another row or column is refused.
    """

    def __init__(self, settings: Settings) -> None:
        self.key_file: Path | None = None
        self._lock = threading.Lock()
        self._seen: tuple[int, int] | None = None
        if settings.secret_key is not None:
            self._keys = _keys_of_setting(settings.secret_key.get_secret_value())
        else:
            self.key_file = _key_file_of(settings)
            key_file.create_if_missing(self.key_file)
            self._keys = ()
            self._read_if_changed()

    @property
    def keys(self) -> tuple[Key, ...]:
        """All keys, the active one first. The key file is read again after a rotation has replaced it."""
        self._read_if_changed()
        return self._keys

    @property
    def active_key_id(self) -> str:
        return self.keys[0].id

    def encrypt(self, plaintext: str, context: str) -> str:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # 8 MB that an idle service can save

        key = self.keys[0]
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = AESGCM(key.material).encrypt(nonce, plaintext.encode("utf-8", "surrogatepass"), context.encode())
        return f"{VERSION}.{key.id}.{base64.urlsafe_b64encode(nonce + sealed).decode()}"

    def decrypt(self, value: str, context: str) -> str:
        """Return the plaintext of a value from ``encrypt``, given its context.

        Raise SecretUnreadable if it cannot be decrypted.
        """
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            version, wanted, encoded = value.split(".")
            sealed = base64.urlsafe_b64decode(encoded)
        except (ValueError, binascii.Error) as error:
            raise SecretUnreadable("the stored value is not an encrypted secret") from error
        if version != VERSION:
            raise SecretUnreadable(f"the stored value has the unknown form {version}")
        try:
            opened = AESGCM(self._key(wanted).material).decrypt(
                sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], context.encode()
            )
        except (InvalidTag, ValueError) as error:
            raise SecretUnreadable("the stored value was changed or belongs elsewhere") from error
        return opened.decode("utf-8", "surrogatepass")

    def signing_key(self, key_id: str) -> bytes:
        """The key that signs access tokens. It is derived, so that it reveals nothing about the key for secrets."""
        return _derived_key(self._key(key_id).material, SIGNING_PURPOSE)

    def cookie_key(self) -> bytes:
        """The key from which the next cookie of a browser session is made, derived in the same way."""
        return _derived_key(self.keys[0].material, COOKIE_PURPOSE)

    def _key(self, key_id: str) -> Key:
        for key in self.keys:
            if key.id == key_id:
                return key
        raise SecretUnreadable(f"the key {key_id} is not among the keys of this service")

    def _read_if_changed(self) -> None:
        if self.key_file is None:
            return
        try:
            found = self.key_file.stat()
        except FileNotFoundError:
            if self._keys:
                return  # removed while the service is running: the keys in memory still work
            raise
        seen = (found.st_ino, found.st_mtime_ns)
        if seen == self._seen:
            return
        with self._lock:
            self._keys, self._seen = key_file.read(self.key_file), seen


VAULT = Part[Vault]("vault")


@lru_cache(maxsize=16)
def _derived_key(material: bytes, purpose: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), length=32, salt=None, info=purpose).derive(material)


def check_key(settings: Settings) -> None:
    """Raise BadKey if the key in the settings or the key file is not valid. A missing file is not created."""
    if settings.secret_key is not None:
        _keys_of_setting(settings.secret_key.get_secret_value())
    elif (path := _key_file_of(settings)).exists():
        key_file.read(path)


def _key_file_of(settings: Settings) -> Path:
    return settings.secret_key_file or settings.data_dir / "secret.key"


def key_id_of(value: str) -> str:
    """Return the id of the key that encrypted a value. Raise SecretUnreadable if the value is not from ``encrypt``."""
    parts = value.split(".")
    if len(parts) != 3:
        raise SecretUnreadable("the stored value is not an encrypted secret")
    return parts[1]


def _keys_of_setting(text: str) -> tuple[Key, ...]:
    """Parse the setting: one or more keys separated by commas, the active one first."""
    try:
        return key_file.parse_keys(text.replace(",", "\n"))
    except BadKey as error:
        raise BadKey(f"HOLDFAST_SECRET_KEY cannot be used: {error}") from error


TheVault = Annotated[Vault, Depends(VAULT)]
