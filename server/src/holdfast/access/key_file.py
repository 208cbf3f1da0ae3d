"""The key file for stored secrets: one key per line, the active one first."""

import base64
import binascii
import os
import secrets
import stat
from collections.abc import Iterable
from dataclasses import field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import structlog

from backup_engine.frozen import frozen
from holdfast.errors import HoldfastError
from holdfast.kit import clock

log = structlog.get_logger("holdfast.access.vault")

KEY_BYTES = 32
HEADER = (
    "# Keys for the secrets in the store; the first is active. This file and the store together reveal all secrets.\n"
)


class BadKey(HoldfastError):
    """The key setting or the key file cannot be used."""

    def __init__(self, message: str) -> None:
        super().__init__("secrets.bad_key", message)


@frozen
class Key:
    material: bytes = field(repr=False)
    created_at: datetime | None = None

    @property
    def id(self) -> str:
        return sha256(b"holdfast key id\0" + self.material).hexdigest()[:12]

    @classmethod
    def new(cls) -> "Key":
        return cls(secrets.token_bytes(KEY_BYTES), clock.now().replace(microsecond=0))

    @classmethod
    def parse(cls, line: str) -> "Key":
        """Parse a base64 key, optionally followed by its time of creation. Raise BadKey."""
        encoded, *rest = line.split()
        try:
            material = base64.b64decode(encoded.replace("-", "+").replace("_", "/"), validate=True)
            created_at = datetime.fromisoformat(rest[0]).astimezone(UTC) if rest else None
        except (ValueError, binascii.Error) as error:
            raise BadKey("a key must be base64, optionally followed by its time of creation") from error
        if len(material) != KEY_BYTES:
            raise BadKey(f"a key must have {KEY_BYTES} bytes, this one has {len(material)}")
        return cls(material, created_at)

    def line(self) -> str:
        encoded = base64.b64encode(self.material).decode()
        return f"{encoded} {self.created_at.isoformat()}\n" if self.created_at else f"{encoded}\n"


def parse_keys(text: str) -> tuple[Key, ...]:
    lines = [line.strip() for line in text.splitlines()]
    keys = tuple(Key.parse(line) for line in lines if line and not line.startswith("#"))
    if not keys:
        raise BadKey("it holds no key")
    return keys


def read(path: Path) -> tuple[Key, ...]:
    try:
        with path.open(encoding="utf-8") as opened:
            if stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & 0o077:
                log.warning("the key file can be read by other users of this machine", path=str(path))
            return parse_keys(opened.read())
    except (UnicodeDecodeError, BadKey) as error:
        raise BadKey(f"the key file {path} cannot be used: {error}") from error


def create_if_missing(path: Path) -> None:
    """Create a key file with one new key. If two processes do so simultaneously, both end up with the same file."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    prepared = _prepared(path, [Key.new()])
    try:
        os.link(prepared, path)
    except FileExistsError:
        return
    finally:
        prepared.unlink()
    _make_durable(path.parent)


def replace(path: Path, keys: Iterable[Key]) -> None:
    """Replace all keys. After a crash, the file contains either all of the old keys or all of the new ones."""
    _prepared(path, keys).replace(path)
    _make_durable(path.parent)


def _prepared(path: Path, keys: Iterable[Key]) -> Path:
    prepared = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(prepared, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(HEADER + "".join(key.line() for key in keys))
        opened.flush()
        os.fsync(opened.fileno())
    return prepared


def _make_durable(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
