"""Rotates the key for stored secrets while the service is running.

Adding a key, moving the values and dropping old keys each survive a crash right afterwards: the file is replaced
atomically, the values move in one transaction, and an old key is removed only when nothing in the store needs it and no
request that started under it can still be running.
"""

from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access import audit, key_file
from holdfast.access.key_file import Key
from holdfast.access.stored_secrets import keys_in_use, store, stored_secrets
from holdfast.access.vault import Vault, key_id_of
from holdfast.errors import Conflict
from holdfast.kit import clock
from holdfast.storage.session import Database

# Longer than any transaction: after this time, requests that encrypted with the old key just before the rotation have
# committed.
SETTLED = timedelta(minutes=10)


@frozen
class Rotation:
    active_key: str
    moved: int
    dropped: tuple[str, ...]
    kept: tuple[str, ...]


def rotate(database: Database, vault: Vault, *, add_key: bool = True, drop_old: bool = False) -> Rotation:
    """Add a key, re-encrypt every stored secret with it and, with ``drop_old``, remove keys that are no longer used.

    Raise Conflict if a key should be added or dropped but the keys come from HOLDFAST_SECRET_KEY. Raise
    SecretUnreadable, without moving anything, if a stored secret cannot be decrypted.
    """
    if vault.key_file is None and (add_key or drop_old):
        raise Conflict(
            "secrets.key_not_in_file",
            "The keys come from HOLDFAST_SECRET_KEY: put the new key before the old one there, then move the secrets.",
        )
    if add_key and vault.key_file is not None:
        key_file.replace(vault.key_file, (Key.new(), *vault.keys))
    with database.writing() as session:
        moved = _move(session, vault)
        details = {"key": vault.active_key_id, "moved": moved}
        audit.record(session, actor=None, action="secrets.key_rotated", details=details)
    dropped = _drop_old(database, vault) if drop_old else ()
    return Rotation(vault.active_key_id, moved, dropped, tuple(key.id for key in vault.keys[1:]))


def _move(session: Session, vault: Vault) -> int:
    moved = 0
    for secret in stored_secrets(session, to_change=True):
        if key_id_of(secret.value) != vault.active_key_id:
            plaintext = vault.decrypt(secret.value, secret.context)
            store(session, secret, vault.encrypt(plaintext, secret.context))
            moved += 1
    return moved


def _drop_old(database: Database, vault: Vault) -> tuple[str, ...]:
    assert vault.key_file is not None
    active, *old = vault.keys
    if not _is_settled(active, clock.now()):
        return ()
    with database.reading() as session:
        needed = keys_in_use(session)
    dropped = [key for key in old if key.id not in needed]
    if dropped:
        key_file.replace(vault.key_file, (active, *(key for key in old if key.id in needed)))
    return tuple(key.id for key in dropped)


def _is_settled(active: Key, now: datetime) -> bool:
    return active.created_at is None or now - active.created_at >= SETTLED
