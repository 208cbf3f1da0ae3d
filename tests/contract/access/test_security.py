"""Attempts to get in with credentials that this service did not issue."""

import base64
import json
from datetime import timedelta
from typing import Any

import jwt
import pytest
import time_machine
from sqlalchemy import select, update

from holdfast.access import login as login_module
from holdfast.access.caller import identify, still_valid
from holdfast.access.models import AccountToken, LoginChallenge, LoginSession, User
from holdfast.access.roles import Role
from holdfast.access.vault import Vault
from holdfast.kit import clock
from holdfast.settings import Settings
from tests.contract.access.application import Service, header, key_of


@pytest.fixture
def token(service: Service) -> str:
    service.add_user("anna", Role.ADMIN)
    access_token: str = service.try_login("anna").json()["access_token"]
    return access_token


def refused(service: Service, token: str) -> bool:
    answers = [
        service.client.get("/probe/signed-in", headers=header(token)),
        service.client.post("/api/auth/refresh", headers=header(token)),
    ]
    return all((answer.status_code, key_of(answer)) == (401, "auth.token_invalid") for answer in answers)


def parts(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    head, claims, signature = token.split(".")
    return _unpacked(head), _unpacked(claims), signature


def _unpacked(part: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return value


def packed(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "HS384", "HS512", "RS256", ""])
def test_a_token_cannot_choose_its_algorithm(service: Service, token: str, algorithm: str) -> None:
    head, claims, signature = parts(token)
    altered = packed({**head, "alg": algorithm})
    assert refused(service, f"{altered}.{packed(claims)}.")
    assert refused(service, f"{altered}.{packed(claims)}.{signature}")


def test_a_token_signed_with_the_right_key_but_another_algorithm_is_refused(service: Service, token: str) -> None:
    head, claims, _ = parts(token)
    key = service.access.vault.signing_key(head["kid"])
    forged = jwt.encode(claims, key, "HS512", headers={"kid": head["kid"]})
    assert refused(service, forged)


def test_a_token_signed_with_a_foreign_key_is_refused(
    service: Service, token: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    head, claims, _ = parts(token)
    foreign = Vault(Settings(data_dir=tmp_path_factory.mktemp("foreign")))
    key = foreign.signing_key(foreign.active_key_id)
    assert refused(service, jwt.encode(dict(claims), key, "HS256", headers={"kid": head["kid"]}))
    assert refused(service, jwt.encode(dict(claims), key, "HS256", headers={"kid": foreign.active_key_id}))


def test_the_key_that_encrypts_secrets_does_not_sign_tokens(service: Service, token: str) -> None:
    head, claims, _ = parts(token)
    key = service.access.vault.keys[0].material
    assert refused(service, jwt.encode(dict(claims), key, "HS256", headers={"kid": head["kid"]}))


def test_changed_claims_break_the_signature(service: Service, token: str) -> None:
    head, claims, signature = parts(token)
    for change in ({"exp": claims["exp"] + 86400}, {"sid": "another"}, {"use": "other"}):
        assert refused(service, f"{packed(head)}.{packed({**claims, **change})}.{signature}")


@pytest.mark.parametrize(
    "change",
    [{"sid": None}, {"sid": 7}, {"exp": None}, {"exp": "soon"}, {"exp": True}, {"use": "other"}, {"use": None}],
)
def test_a_signed_token_with_invalid_claims_is_refused(service: Service, token: str, change: dict[str, Any]) -> None:
    head, claims, _ = parts(token)
    key = service.access.vault.signing_key(head["kid"])
    assert refused(service, jwt.encode({**claims, **change}, key, "HS256", headers={"kid": head["kid"]}))


@pytest.mark.parametrize("kid", [None, 7, "", "../secret", "0" * 12])
def test_a_token_with_an_unknown_key_id_is_refused(service: Service, token: str, kid: Any) -> None:
    head, claims, signature = parts(token)
    assert refused(service, f"{packed({**head, 'kid': kid})}.{packed(claims)}.{signature}")


@pytest.mark.parametrize("odd", ["x", "..", "a.b.c", "bk_user_", "bk_user_" + "A" * 43, "A" * 100_000, "%00", "ÿ.þ.ý"])
def test_malformed_credentials_are_refused_without_an_error(service: Service, odd: str) -> None:
    headers = {b"X-Backup-Authorization": f"Bearer {odd}".encode("latin-1")}
    assert service.client.get("/probe/signed-in", headers=headers).status_code == 401


@pytest.mark.parametrize("value", ["", "Bearer", "Bearer ", "Basic YTpi", "token abc"])
def test_a_header_without_a_bearer_token_is_refused(service: Service, value: str) -> None:
    assert service.client.get("/probe/signed-in", headers={"Authorization": value}).status_code == 401


def test_a_challenge_is_not_an_access_token(service: Service) -> None:
    user_id = service.add_user("anna")
    with service.database.writing() as session:
        session.execute(update(User).filter_by(id=user_id).values(totp_enabled=True))
    challenge = service.try_login("anna").json()["login_challenge_token"]
    assert refused(service, challenge)


def test_no_value_in_the_store_works_as_a_credential(service: Service, token: str) -> None:
    login = header(token)
    service.account_token(login)
    with service.database.reading() as session:
        stored = session.execute(select(AccountToken.token_hash, AccountToken.prefix)).one()
        session_id = session.execute(select(LoginSession.public_id)).scalar_one()
    for value in (*stored, session_id, f"bk_user_{stored.token_hash}"):
        assert service.client.get("/probe/signed-in", headers=header(value)).status_code == 401


def test_tokens_of_a_disabled_or_removed_user_are_refused(service: Service, token: str) -> None:
    for change in ("disable", "remove"):
        user_id = service.add_user(change, Role.OPERATOR)
        login = service.log_in(change)
        account = service.account_token(login)
        if change == "disable":
            answer = service.client.put(f"/api/users/{user_id}", json={"disabled": True}, headers=header(token))
        else:
            answer = service.client.delete(f"/api/users/{user_id}", headers=header(token))
        assert answer.status_code in {200, 204}
        for credential in (login, account):
            assert service.client.get("/probe/signed-in", headers=credential).status_code == 401
            assert service.client.get("/api/auth/me", headers=credential).status_code == 401


def test_an_account_token_is_refused_where_a_login_is_required(service: Service, token: str) -> None:
    account = service.account_token(header(token))
    assert service.client.get("/probe/signed-in", headers=account).status_code == 200
    assert service.client.get("/api/users", headers=account).status_code == 200
    for method, path, body in [
        ("POST", "/probe/login-only", None),
        ("POST", "/api/settings/tokens", {"name": "more"}),
        ("POST", "/api/auth/refresh", None),
        ("POST", "/api/auth/logout", None),
        ("POST", "/api/auth/change-password", {"current_password": "irrelevant", "new_password": "irrelevant"}),
        ("POST", "/api/auth/totp/setup", None),
    ]:
        answer = service.client.request(method, path, json=body, headers=account)
        assert (answer.status_code, key_of(answer)) == (403, "auth.login_token_required"), path


def test_account_tokens_of_other_users_can_be_neither_seen_nor_revoked(service: Service, token: str) -> None:
    service.add_user("bert")
    bert = service.log_in("bert")
    account = service.account_token(bert)
    token_id = service.client.get("/api/settings/tokens", headers=bert).json()["tokens"][0]["id"]
    assert service.client.get("/api/settings/tokens", headers=header(token)).json() == {"tokens": []}
    answer = service.client.delete(f"/api/settings/tokens/{token_id}", headers=header(token))
    assert (answer.status_code, key_of(answer)) == (404, "auth.token_not_found")
    assert service.client.get("/probe/signed-in", headers=account).status_code == 200


def test_a_login_verified_before_a_password_change_gets_no_session(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password is correct when it is verified, but changes before the session is written."""
    user_id = service.add_user("anna")

    def changed_meanwhile(password: str, password_hash: str | None) -> bool:
        del password, password_hash
        with service.database.writing() as session:
            session.execute(update(User).filter_by(id=user_id).values(password_hash="another"))
        return True

    monkeypatch.setattr(login_module, "is_password", changed_meanwhile)
    assert service.try_login("anna").status_code == 401
    with service.database.reading() as session:
        assert session.execute(select(LoginSession)).first() is None


def test_expired_sessions_and_challenges_are_removed(service: Service) -> None:
    user_id = service.add_user("anna")
    login = service.log_in("anna")
    service.client.post("/api/auth/logout", headers=login)
    with service.database.writing() as session:
        session.add(LoginChallenge(token_hash="x", user_id=user_id, expires_at=clock.now() + timedelta(minutes=10)))
    service.access.tidy()

    def left() -> tuple[int, int]:
        with service.database.reading() as session:
            return session.query(LoginSession).count(), session.query(LoginChallenge).count()

    assert left() == (1, 1)
    service.access.tidy(clock.now() + timedelta(days=31))
    assert left() == (0, 0)


def test_the_caller_of_an_event_stream_becomes_invalid_when_the_session_ends(service: Service) -> None:
    service.add_user("anna")
    token = service.try_login("anna").json()["access_token"]
    found = identify(service.database, service.settings, service.access.vault, token, None, may_be_expired=False)
    with service.database.reading() as session:
        assert still_valid(session, service.settings, found.caller) == found.caller
    with time_machine.travel(clock.now() + timedelta(days=8)), service.database.reading() as session:
        assert still_valid(session, service.settings, found.caller) is None
    service.client.post("/api/auth/logout", headers=header(token))
    with service.database.reading() as session:
        assert still_valid(session, service.settings, found.caller) is None
