import base64
from collections.abc import Iterator
from datetime import timedelta

import pytest
import time_machine
from pydantic import SecretStr
from sqlalchemy import select, update
from sqlalchemy.exc import OperationalError

from holdfast.access import administration, rotation, stored_secrets, totp
from holdfast.access.models import AuditEntry, User
from holdfast.access.rotation import rotate
from holdfast.access.vault import SecretUnreadable, Vault, key_id_of
from holdfast.errors import Conflict, Unavailable
from holdfast.kit import clock
from holdfast.settings import Settings
from holdfast.storage.session import Database


@pytest.fixture
def users(database: Database, settings: Settings) -> dict[int, str]:
    """Users, each with a secret."""
    vault = Vault(settings)
    secrets = {}
    for name in ("anna", "bert", "carl"):
        user = administration.create_user(database, username=name, password="correct horse")
        secrets[user.user_id] = f"secret of {name}"
        with database.writing() as session:
            sealed = vault.encrypt(secrets[user.user_id], totp.context(user.user_id))
            session.execute(update(User).filter_by(id=user.user_id).values(totp_secret=sealed))
    return secrets


def sealed(database: Database) -> dict[int, str]:
    with database.reading() as session:
        return {row.id: row.totp_secret or "" for row in session.execute(select(User.id, User.totp_secret))}


def opened(database: Database, vault: Vault) -> dict[int, str]:
    return {user_id: vault.decrypt(value, totp.context(user_id)) for user_id, value in sealed(database).items()}


@pytest.fixture
def later() -> Iterator[None]:
    with time_machine.travel(clock.now() + timedelta(minutes=11)):
        yield


def test_every_secret_moves_to_the_new_key(database: Database, settings: Settings, users: dict[int, str]) -> None:
    running = Vault(settings)
    old = running.active_key_id
    result = administration.rotate_key(database, settings)
    assert (result.moved, result.dropped, result.kept) == (3, (), (old,))
    assert {key_id_of(value) for value in sealed(database).values()} == {result.active_key} != {old}
    assert opened(database, Vault(settings)) == users
    assert opened(database, running) == users, "the running service has read the new key"
    with database.reading() as session:
        entry = session.execute(select(AuditEntry).filter_by(action="secrets.key_rotated")).scalar_one()
    assert entry.details == {"key": result.active_key, "moved": 3}


@pytest.mark.usefixtures("users")
def test_old_keys_are_dropped_only_on_demand_and_after_all_requests_that_use_them_have_ended(
    database: Database, settings: Settings, users: dict[int, str]
) -> None:
    old = Vault(settings).active_key_id
    new = administration.rotate_key(database, settings).active_key
    result = administration.rotate_key(database, settings, drop_old=True)
    assert (result.active_key, result.dropped, result.kept) == (new, (), (old,))
    with time_machine.travel(clock.now() + timedelta(minutes=11)):
        result = administration.rotate_key(database, settings, drop_old=True)
    assert (result.active_key, result.dropped, result.kept) == (new, (old,), ())
    assert opened(database, Vault(settings)) == users


@pytest.mark.usefixtures("later")
def test_a_secret_written_late_under_the_old_key_is_moved_before_the_key_is_dropped(
    database: Database, settings: Settings, users: dict[int, str]
) -> None:
    with time_machine.travel(clock.now() - timedelta(minutes=11)):
        before = Vault(settings)
        straggler = next(iter(users))
        late = before.encrypt("late", totp.context(straggler))
        administration.rotate_key(database, settings)
    with database.writing() as session:
        session.execute(update(User).filter_by(id=straggler).values(totp_secret=late))
    result = administration.rotate_key(database, settings, drop_old=True)
    assert (result.moved, len(result.dropped)) == (1, 1)
    assert opened(database, Vault(settings)) == {**users, straggler: "late"}


def test_a_crash_before_the_secrets_are_moved_loses_nothing(
    database: Database, settings: Settings, users: dict[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> int:
        raise OperationalError("move", None, Exception("power cut"))

    before = sealed(database)
    with monkeypatch.context() as patched:
        patched.setattr(rotation, "_move", crash)
        with pytest.raises(Unavailable):
            administration.rotate_key(database, settings)
    assert sealed(database) == before
    assert opened(database, Vault(settings)) == users
    result = administration.rotate_key(database, settings)
    assert result.moved == 3
    assert opened(database, Vault(settings)) == users


def test_an_unreadable_secret_stops_the_rotation_and_nothing_is_moved(
    database: Database, settings: Settings, users: dict[int, str]
) -> None:
    broken = max(users)
    with database.writing() as session:
        session.execute(update(User).filter_by(id=broken).values(totp_secret="v1.000000000000.AAAA"))
    before = sealed(database)
    with pytest.raises(SecretUnreadable):
        administration.rotate_key(database, settings)
    assert sealed(database) == before
    with database.reading() as session:
        assert stored_secrets.unreadable(session, Vault(settings)) == [f"users.totp_secret of row {broken}"]


def test_keys_from_the_setting_are_added_by_the_operator_and_not_by_a_rotation(
    database: Database, users: dict[int, str], settings: Settings
) -> None:
    file_key = base64.b64encode(Vault(settings).keys[0].material).decode()
    new_key = base64.b64encode(b"n" * 32).decode()
    both = Settings(data_dir=settings.data_dir, secret_key=SecretStr(f"{new_key},{file_key}"))
    result = administration.rotate_key(database, both)
    assert result.moved == 3
    assert opened(database, Vault(Settings(secret_key=SecretStr(new_key)))) == users
    with pytest.raises(Conflict):
        rotate(database, Vault(both), add_key=True)
