"""Identities are cached between requests. A change to one takes effect with the very next request, no matter who makes
it: this process, another one on the same store, or a user with a database client.
"""

import subprocess
import sys
from datetime import timedelta

import pytest
import time_machine
from sqlalchemy import make_url

from holdfast.access import caller, users
from holdfast.access.administration import rotate_key
from holdfast.access.roles import Role
from holdfast.kit import clock
from tests.contract.access.application import PASSWORD, Service, header, key_of

SIGNED_IN = "/probe/signed-in"
IN_SQLITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("PRAGMA foreign_keys = ON")
connection.execute(sys.argv[2])
connection.commit()
"""
IN_POSTGRESQL = "import psycopg, sys; c = psycopg.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()"


@pytest.fixture
def admin(service: Service) -> dict[str, str]:
    service.add_user("admin", Role.ADMIN)
    return service.log_in("admin")


@pytest.fixture
def anna(service: Service) -> dict[str, str]:
    """A login that the service has cached."""
    service.add_user("anna", Role.OPERATOR)
    login = service.log_in("anna")
    for _ in range(3):
        assert _answer(service, login) == (200, "operator")
    return login


def _answer(service: Service, credential: dict[str, str]) -> tuple[int, str]:
    answer = service.client.get(SIGNED_IN, headers=credential)
    return answer.status_code, answer.json()["role"] if answer.status_code == 200 else key_of(answer)


def _in_another_process(service: Service, statement: str) -> None:
    url = make_url(service.database.url)
    is_sqlite = url.get_backend_name() == "sqlite"
    place = url.database if is_sqlite else url.set(drivername="postgresql").render_as_string(hide_password=False)
    assert place is not None
    script = IN_SQLITE if is_sqlite else IN_POSTGRESQL
    subprocess.run([sys.executable, "-c", script, place, statement], check=True)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE users SET disabled = (1 = 1) WHERE username = 'anna'", (401, "auth.token_invalid")),
        ("DELETE FROM users WHERE username = 'anna'", (401, "auth.token_invalid")),
        ("UPDATE users SET role = 'viewer' WHERE username = 'anna'", (200, "viewer")),
        (
            "UPDATE users SET must_change_password = (1 = 1) WHERE username = 'anna'",
            (403, "auth.password_change_required"),
        ),
        ("UPDATE login_sessions SET ended_at = last_used_at", (401, "auth.session_ended")),
        ("DELETE FROM login_sessions", (401, "auth.token_invalid")),
    ],
)
def test_a_change_by_another_process_takes_effect_with_the_next_request(
    service: Service, anna: dict[str, str], statement: str, expected: tuple[int, str]
) -> None:
    _in_another_process(service, statement)
    assert _answer(service, anna) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM account_tokens", (401, "auth.token_invalid")),
        ("UPDATE account_tokens SET expires_at = '2020-01-01 00:00:00.000000'", (401, "auth.token_expired")),
    ],
)
def test_a_token_that_another_process_ended_is_refused_immediately(
    service: Service, anna: dict[str, str], statement: str, expected: tuple[int, str]
) -> None:
    token = service.account_token(anna)
    assert _answer(service, token) == _answer(service, token) == (200, "operator")
    _in_another_process(service, statement)
    assert _answer(service, token) == expected


def test_rights_revoked_by_another_process_disappear_from_the_users_account(
    service: Service, anna: dict[str, str]
) -> None:
    repository_id = service.add_repository()
    _in_another_process(
        service,
        "INSERT INTO repository_rights (user_id, repository_id, role) "
        f"SELECT id, {repository_id}, 'operator' FROM users WHERE username = 'anna'",
    )
    given = [{"repository_id": repository_id, "role": "operator"}]
    for _ in range(2):
        assert service.client.get("/api/auth/me", headers=anna).json()["repositories"] == given
    _in_another_process(service, "DELETE FROM repository_rights")
    assert service.client.get("/api/auth/me", headers=anna).json()["repositories"] == []


def test_a_logout_a_new_password_and_a_new_role_take_effect_with_the_next_request(
    service: Service, admin: dict[str, str], anna: dict[str, str]
) -> None:
    second = service.log_in("anna")
    assert _answer(service, second) == (200, "operator")
    body = {"current_password": PASSWORD, "new_password": "another horse"}
    assert service.client.post("/api/auth/change-password", json=body, headers=second).status_code == 200
    assert _answer(service, anna) == (401, "auth.session_ended")
    assert _answer(service, second) == (200, "operator")
    assert service.client.post("/api/auth/logout", headers=second).status_code == 204
    assert _answer(service, second) == (401, "auth.session_ended")

    third = service.log_in("anna", "another horse")
    assert _answer(service, third) == (200, "operator")
    user_id = service.client.get("/api/auth/me", headers=third).json()["id"]
    assert service.client.put(f"/api/users/{user_id}", json={"role": "viewer"}, headers=admin).status_code == 200
    assert _answer(service, third) == (401, "auth.session_ended")


def test_a_cached_credential_expires_on_time(service: Service, anna: dict[str, str]) -> None:
    token = service.account_token(anna, expires_in_days=1)
    assert _answer(service, token) == (200, "operator")
    with time_machine.travel(clock.now() + timedelta(days=2), tick=False):
        assert _answer(service, token) == (401, "auth.token_expired")
        assert _answer(service, anna) == (401, "auth.token_expired")


def test_a_cached_login_ends_with_the_key_that_signed_it(service: Service, anna: dict[str, str]) -> None:
    rotate_key(service.database, service.settings)
    assert _answer(service, anna) == (200, "operator")
    with time_machine.travel(clock.now() + timedelta(minutes=11), tick=True):
        assert _answer(service, anna) == (200, "operator")
        assert rotate_key(service.database, service.settings, drop_old=True).dropped
        assert _answer(service, anna) == (401, "auth.token_invalid")


def test_a_refused_credential_is_not_cached(service: Service) -> None:
    service.add_user("anna", Role.OPERATOR)
    login = service.log_in("anna")
    _in_another_process(service, "UPDATE users SET disabled = (1 = 1) WHERE username = 'anna'")
    assert _answer(service, login) == (401, "auth.token_invalid")
    _in_another_process(service, "UPDATE users SET disabled = (1 = 0) WHERE username = 'anna'")
    assert _answer(service, login) == (200, "operator")


def test_a_forged_token_is_refused_however_often_it_is_sent(service: Service, anna: dict[str, str]) -> None:
    forged = header(anna["X-Backup-Authorization"].removeprefix("Bearer ")[:-4] + "AAAA")
    for _ in range(3):
        assert _answer(service, forged) == (401, "auth.token_invalid")
    assert _answer(service, anna) == (200, "operator")


def test_unrelated_commits_do_not_make_a_cached_caller_wait_for_a_thread(
    service: Service, anna: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if service.database.version is None:
        pytest.skip("on PostgreSQL every lookup goes over the network, in a thread")
    assert service.client.get("/api/auth/me", headers=anna).status_code == 200
    service.add_repository()  # any commit invalidates the cache

    async def no_thread(*_arguments: object) -> None:
        raise AssertionError("a known caller waited for a thread")

    for module in (caller, users):
        monkeypatch.setattr(module, "in_thread", no_thread)
    assert service.client.get("/api/auth/me", headers=anna).json()["username"] == "anna"


def test_unrelated_commits_do_not_cause_a_cached_caller_to_be_looked_up_again(
    service: Service, anna: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if service.database.version is None:
        pytest.skip("on PostgreSQL nothing is remembered")
    assert service.client.get("/api/auth/me", headers=anna).status_code == 200
    service.add_repository()

    def no_session() -> None:
        raise AssertionError("a known caller was looked up again")

    monkeypatch.setattr(service.database, "reading_at_once", no_session)
    monkeypatch.setattr(service.database, "reading", no_session)
    assert service.client.get("/api/auth/me", headers=anna).json()["username"] == "anna"
