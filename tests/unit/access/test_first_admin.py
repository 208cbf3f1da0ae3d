import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import SecretStr
from sqlalchemy import select

from holdfast.access import administration, initial_password
from holdfast.access.first_admin import FirstAdmin, ensure_first_admin
from holdfast.access.models import User
from holdfast.access.passwords import is_password
from holdfast.access.roles import Role
from holdfast.errors import Conflict, NotFound, Unprocessable
from holdfast.settings import Settings
from holdfast.storage.session import Database


def the_user(database: Database) -> User:
    with database.reading() as session:
        return session.execute(select(User)).scalar_one()


def created(database: Database, settings: Settings) -> FirstAdmin:
    first = ensure_first_admin(database, settings)
    assert first is not None
    return first


def test_an_empty_store_gets_an_admin_with_a_random_password_in_a_file(database: Database, settings: Settings) -> None:
    first = created(database, settings)
    assert first.password is not None
    assert first.password_file == settings.data_dir / "initial-admin-password"
    assert first.password_file.read_text() == first.password + "\n"
    assert stat.S_IMODE(first.password_file.stat().st_mode) == 0o600
    user = the_user(database)
    assert (user.username, user.role, user.must_change_password) == ("admin", Role.ADMIN, True)
    assert is_password(first.password, user.password_hash)


def test_the_password_is_printed_only_on_a_terminal(database: Database, settings: Settings) -> None:
    first = created(database, settings)
    assert first.announcement(to_terminal=True).endswith(f": {first.password}")
    elsewhere = first.announcement(to_terminal=False)
    assert str(first.password_file) in elsewhere
    assert str(first.password) not in elsewhere
    assert str(first.password) not in repr(first)


def test_a_password_chosen_by_the_operator_need_not_be_changed(database: Database, settings: Settings) -> None:
    settings.admin_password = SecretStr("chosen by me")
    first = created(database, settings)
    assert (first.password, first.password_file) == (None, None)
    assert "chosen by me" not in first.announcement(to_terminal=True)
    assert not initial_password.path(settings).exists()
    user = the_user(database)
    assert user.must_change_password is False
    assert is_password("chosen by me", user.password_hash)


def test_a_short_chosen_password_is_accepted_with_a_warning(database: Database, settings: Settings) -> None:
    settings.admin_password = SecretStr("short")
    first = ensure_first_admin(database, settings)
    assert first is not None
    assert "It is short" in first.announcement(to_terminal=False)
    assert is_password("short", the_user(database).password_hash)


@pytest.mark.parametrize("password", ["x" * 1025, "nul\0"])
def test_an_invalid_chosen_password_is_refused_without_showing_it(
    database: Database, settings: Settings, password: str
) -> None:
    settings.admin_password = SecretStr(password)
    with pytest.raises(Unprocessable, match="HOLDFAST_ADMIN_PASSWORD") as caught:
        ensure_first_admin(database, settings)
    assert password not in str(caught.value)


def test_a_store_with_users_is_left_alone(database: Database, settings: Settings) -> None:
    first = created(database, settings)
    settings.admin_password = SecretStr("another password")
    assert ensure_first_admin(database, settings) is None
    assert first.password is not None
    assert is_password(first.password, the_user(database).password_hash)
    assert initial_password.path(settings).exists()


def test_concurrent_first_starts_create_one_admin_whose_password_is_in_the_file(
    database: Database, settings: Settings
) -> None:
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda _: ensure_first_admin(database, settings), range(6)))
    (first,) = [result for result in results if result is not None]
    written = initial_password.path(settings).read_text().strip()
    assert written == first.password
    assert is_password(written, the_user(database).password_hash)


def test_a_password_reset_removes_the_file(database: Database, settings: Settings) -> None:
    created(database, settings)
    administration.reset_password(database, settings, username="admin", password="another horse")
    assert not initial_password.path(settings).exists()


def test_a_file_left_by_a_crash_is_removed_at_the_next_start(database: Database, settings: Settings) -> None:
    created(database, settings)
    administration.reset_password(database, settings, username="admin", password="another horse")
    initial_password.write(settings, "old")
    ensure_first_admin(database, settings)
    assert not initial_password.path(settings).exists()


def test_a_file_from_a_start_that_did_not_finish_is_replaced(database: Database, settings: Settings) -> None:
    initial_password.write(settings, "of a store that never came to be")
    first = created(database, settings)
    assert initial_password.path(settings).read_text().strip() == first.password


def test_the_command_line_creates_users(database: Database, settings: Settings) -> None:
    chosen = administration.create_user(database, username="anna", password="correct horse", role="operator")
    assert chosen.generated_password is None
    user = the_user(database)
    assert (user.role, user.must_change_password, user.id) == (Role.OPERATOR, False, chosen.user_id)
    with pytest.raises(Conflict):
        administration.create_user(database, username="ANNA")
    generated = administration.create_user(database, username="bert")
    assert generated.generated_password is not None
    assert generated.generated_password not in repr(generated)
    with database.reading() as session:
        bert = session.execute(select(User).filter_by(username="bert")).scalar_one()
    assert (bert.role, bert.must_change_password) == (Role.VIEWER, True)
    assert is_password(generated.generated_password, bert.password_hash)


@pytest.mark.parametrize(
    "fields",
    [
        {"username": "two words"},
        {"password": "short"},
        {"role": "owner"},
        {"email": "x"},
        {"all_repositories_role": "admin"},
    ],
)
def test_the_command_line_refuses_what_the_api_refuses(database: Database, fields: dict[str, str]) -> None:
    with pytest.raises(Unprocessable, match=next(iter(fields))):
        administration.create_user(database, **{"username": "anna", "password": "correct horse", **fields})


def test_a_reset_lets_a_locked_out_user_back_in(database: Database, settings: Settings) -> None:
    administration.create_user(database, username="anna", password="correct horse")
    with database.writing() as session:
        user = session.execute(select(User)).scalar_one()
        user.disabled, user.totp_enabled, user.totp_secret = True, True, "v1.x.y"
    result = administration.reset_password(database, settings, username="Anna", disable_totp=True, enable=True)
    user = the_user(database)
    assert (user.disabled, user.totp_enabled, user.totp_secret, user.must_change_password) == (False, False, None, True)
    assert result.generated_password is not None
    assert is_password(result.generated_password, user.password_hash)
    with pytest.raises(NotFound):
        administration.reset_password(database, settings, username="nobody")
    with pytest.raises(Unprocessable):
        administration.reset_password(database, settings, username="anna", password="short")
