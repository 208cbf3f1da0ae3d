from datetime import timedelta

import pytest
import time_machine
from sqlalchemy import update

from holdfast.access import passwords
from holdfast.access.models import LoginSession, User
from holdfast.access.roles import Role
from holdfast.kit import clock
from tests.contract.access.application import ELSEWHERE, HOME, PASSWORD, Service, header, key_of


def test_a_login_returns_the_fields_of_the_contract(service: Service) -> None:
    service.add_user("anna")
    answer = service.try_login("anna")
    assert answer.status_code == 200
    body = answer.json()
    assert isinstance(body.pop("access_token"), str)
    assert body == {
        "token_type": "bearer",
        "expires_in": 1800,
        "must_change_password": False,
        "totp_required": False,
        "login_challenge_token": None,
    }


def test_a_login_accepts_only_a_form(service: Service) -> None:
    service.add_user("anna")
    answer = service.client.post("/api/auth/login", json={"username": "anna", "password": PASSWORD})
    assert answer.status_code == 422


def test_usernames_are_case_insensitive(service: Service) -> None:
    service.add_user("Anna")
    assert service.try_login("aNNA").status_code == 200


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
@pytest.mark.parametrize("name", ["X-Backup-Authorization", "Authorization"])
def test_both_headers_may_carry_the_token(service: Service, name: str, scheme: str) -> None:
    service.add_user("anna")
    token = service.try_login("anna").json()["access_token"]
    answer = service.client.get("/api/auth/me", headers={name: f"{scheme} {token}"})
    assert answer.json()["username"] == "anna"


def test_the_backup_header_takes_precedence(service: Service) -> None:
    service.add_user("anna")
    service.add_user("bert")
    anna, bert = (service.try_login(name).json()["access_token"] for name in ("anna", "bert"))
    headers = {"X-Backup-Authorization": f"Bearer {anna}", "Authorization": f"Bearer {bert}"}
    assert service.client.get("/api/auth/me", headers=headers).json()["username"] == "anna"
    headers["X-Backup-Authorization"] = "Bearer nonsense"
    assert service.client.get("/api/auth/me", headers=headers).status_code == 401


def test_a_request_without_a_credential_returns_401_and_names_the_scheme(service: Service) -> None:
    answer = service.client.get("/probe/signed-in")
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert key_of(answer) == "auth.credential_missing"


def test_unknown_and_disabled_users_and_wrong_passwords_are_indistinguishable(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.add_user("anna")
    service.add_user("gone")
    with service.database.writing() as session:
        session.execute(update(User).filter_by(username="gone").values(disabled=True))
    service.try_login("nobody")  # the hash used for unknown users is computed once
    verified: list[str] = []
    real = passwords.HASHER

    class Counting:
        def verify(self, password_hash: str, password: str) -> bool:
            verified.append(password_hash.split("$")[3])
            return real.verify(password_hash, password)

    monkeypatch.setattr(passwords, "HASHER", Counting())
    answers = [
        service.try_login("anna", "wrong password"),
        service.try_login("nobody-else", "wrong password"),
        service.try_login("gone", PASSWORD),
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1
    assert [sorted(answer.headers) for answer in answers[1:]] == [sorted(answers[0].headers)] * 2
    assert len(verified) == 3
    assert len(set(verified)) == 1, "each verified with the same cost"


def test_logging_out_ends_the_session_immediately(service: Service) -> None:
    service.add_user("anna")
    login, other = service.log_in("anna"), service.log_in("anna")
    assert service.client.post("/api/auth/logout", headers=login).status_code == 204
    answer = service.client.get("/probe/signed-in", headers=login)
    assert (answer.status_code, key_of(answer)) == (401, "auth.session_ended")
    assert service.client.post("/api/auth/refresh", headers=login).status_code == 401
    assert service.client.get("/probe/signed-in", headers=other).status_code == 200


def test_an_expired_token_is_refused_but_can_be_refreshed_while_its_session_is_valid(service: Service) -> None:
    service.add_user("anna")
    with time_machine.travel(clock.now(), tick=True) as moment:
        login = service.log_in("anna")
        moment.shift(timedelta(minutes=31))
        answer = service.client.get("/probe/signed-in", headers=login)
        assert (answer.status_code, key_of(answer)) == (401, "auth.token_expired")
        renewed = service.client.post("/api/auth/refresh", headers=login)
        assert renewed.status_code == 200
        assert set(renewed.json()) == set(service.try_login("anna").json())
        fresh = header(renewed.json()["access_token"])
        assert service.client.get("/probe/signed-in", headers=fresh).status_code == 200


def test_a_session_unused_for_a_week_has_ended(service: Service) -> None:
    service.add_user("anna")
    with time_machine.travel(clock.now(), tick=True) as moment:
        login = service.log_in("anna")
        moment.shift(timedelta(days=7, minutes=1))
        answer = service.client.post("/api/auth/refresh", headers=login)
        assert (answer.status_code, key_of(answer)) == (401, "auth.session_ended")


def test_a_session_in_use_outlives_a_week_and_its_last_use_is_written_rarely(service: Service) -> None:
    service.add_user("anna")
    with time_machine.travel(clock.now(), tick=False) as moment:
        started = clock.now()
        login = service.log_in("anna")
        moment.shift(timedelta(seconds=30))
        assert service.client.get("/probe/signed-in", headers=login).status_code == 200
        assert _last_used(service) == started
        moment.shift(timedelta(days=6))
        assert service.client.post("/api/auth/refresh", headers=login).status_code == 200
        service.access.last_used.close()
        assert _last_used(service) == started + timedelta(days=6, seconds=30)
        moment.shift(timedelta(days=6))
        assert service.client.post("/api/auth/refresh", headers=login).status_code == 200


def _last_used(service: Service) -> object:
    with service.database.reading() as session:
        return session.query(LoginSession.last_used_at).scalar()


def test_me_returns_the_caller_and_the_kind_of_credential(service: Service) -> None:
    user_id = service.add_user("anna", Role.OPERATOR, email="anna@example.org")
    login = service.log_in("anna")
    me = service.client.get("/api/auth/me", headers=login).json()
    assert {name: me[name] for name in ("id", "username", "email", "role", "credential", "repositories")} == {
        "id": user_id,
        "username": "anna",
        "email": "anna@example.org",
        "role": "operator",
        "credential": "login",
        "repositories": [],
    }
    assert me["created_at"].endswith("+00:00")
    assert not any("password_hash" in name or "secret" in name for name in me)
    assert service.client.get("/api/auth/me", headers=service.account_token(login)).json()["credential"] == (
        "account_token"
    )


def test_changing_the_password_ends_other_sessions_and_returns_a_new_token(service: Service) -> None:
    service.add_user("anna")
    login, other = service.log_in("anna"), service.log_in("anna", address=ELSEWHERE)
    body = {"current_password": PASSWORD, "new_password": "another horse"}
    answer = service.client.post("/api/auth/change-password", json=body, headers=login)
    assert answer.status_code == 200
    assert answer.json()["totp_required"] is False
    renewed = header(answer.json()["access_token"])
    assert service.client.get("/probe/signed-in", headers=renewed).status_code == 200
    assert service.client.get("/probe/signed-in", headers=other).status_code == 401
    assert service.try_login("anna").status_code == 401
    assert service.try_login("anna", "another horse").status_code == 200


def test_a_wrong_current_password_changes_nothing_and_is_not_reported_as_a_bad_token(service: Service) -> None:
    service.add_user("anna")
    login = service.log_in("anna")
    body = {"current_password": "wrong password", "new_password": "another horse"}
    answer = service.client.post("/api/auth/change-password", json=body, headers=login)
    assert (answer.status_code, key_of(answer)) == (403, "auth.password_wrong")
    assert service.try_login("anna").status_code == 200


def test_a_stolen_token_cannot_be_used_to_guess_the_password(service: Service) -> None:
    service.add_user("anna")
    login = service.log_in("anna")
    body = {"current_password": "wrong password", "new_password": "another horse"}
    codes = [service.client.post("/api/auth/change-password", json=body, headers=login).status_code for _ in range(7)]
    assert codes == [403] * 5 + [429] * 2


@pytest.mark.parametrize(
    "new", ["tiny", "1234567", "x" * 1025, "ä" * 513, "nul\0nul\0nul", PASSWORD], ids=lambda new: new[:8]
)
def test_a_new_password_must_be_new_and_of_a_valid_length(service: Service, new: str) -> None:
    service.add_user("anna")
    body = {"current_password": PASSWORD, "new_password": new}
    answer = service.client.post("/api/auth/change-password", json=body, headers=service.log_in("anna"))
    assert answer.status_code == 422
    assert new not in answer.text
    assert service.try_login("anna").status_code == 200


def test_a_user_who_must_change_the_password_can_do_nothing_else(service: Service) -> None:
    service.add_user("anna", Role.ADMIN, must_change_password=True)
    first = service.try_login("anna")
    assert first.json()["must_change_password"] is True
    login = header(first.json()["access_token"])
    for method, path in [
        ("GET", "/probe/signed-in"),
        ("GET", "/probe/admin"),
        ("POST", "/probe/login-only"),
        ("GET", "/api/users"),
        ("GET", "/api/settings/tokens"),
        ("POST", "/api/auth/refresh"),
        ("POST", "/api/auth/totp/setup"),
    ]:
        answer = service.client.request(method, path, headers=login)
        assert (answer.status_code, key_of(answer)) == (403, "auth.password_change_required"), path
    assert service.client.get("/api/auth/me", headers=login).json()["must_change_password"] is True
    body = {"current_password": PASSWORD, "new_password": "another horse"}
    answer = service.client.post("/api/auth/change-password", json=body, headers=login)
    assert answer.json()["must_change_password"] is False
    assert service.client.get("/probe/admin", headers=login).status_code == 200


def test_a_user_who_must_change_the_password_may_log_out(service: Service) -> None:
    service.add_user("anna", must_change_password=True)
    login = service.log_in("anna")
    assert service.client.post("/api/auth/logout", headers=login).status_code == 204
    assert service.client.get("/api/auth/me", headers=login).status_code == 401


def test_every_login_is_in_the_audit_trail_without_the_password(service: Service) -> None:
    user_id = service.add_user("anna")
    service.try_login("anna", "wrong password")
    service.try_login("my secret passphrase", "wrong password")
    service.log_in("anna")
    refused, unknown, accepted = service.entries("auth.login")
    assert (refused.outcome, refused.actor, refused.actor_user_id, refused.address) == (
        "refused",
        "anna",
        user_id,
        HOME,
    )
    assert (unknown.outcome, unknown.actor) == ("refused", None)
    assert (accepted.outcome, accepted.actor, accepted.address) == ("ok", "anna", HOME)
    written = str([(entry.actor, entry.object_id, entry.details) for entry in (refused, unknown, accepted)])
    assert "password" not in written.replace("auth.bad_credentials", "")
    assert "passphrase" not in written
