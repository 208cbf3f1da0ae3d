from datetime import timedelta
from typing import Any

import pyotp
import pytest
import time_machine
from sqlalchemy import select

from holdfast.access.models import User
from holdfast.kit import clock
from tests.contract.access.application import ELSEWHERE, PASSWORD, Service, header, key_of


def enrol(service: Service, username: str = "anna") -> pyotp.TOTP:
    """Enable codes for a new user and return the authenticator."""
    service.add_user(username)
    login = service.log_in(username)
    prepared = service.client.post("/api/auth/totp/setup", headers=login)
    assert prepared.status_code == 200
    authenticator = pyotp.TOTP(prepared.json()["secret"])
    enabled = service.client.post("/api/auth/totp/enable", json={"code": code(authenticator)}, headers=login)
    assert enabled.json() == {"totp_enabled": True}
    return authenticator


def code(authenticator: pyotp.TOTP, steps: int = 0) -> str:
    return authenticator.at(clock.now() + timedelta(seconds=30 * steps))


def wrong(authenticator: pyotp.TOTP) -> str:
    near = {code(authenticator, steps) for steps in range(-3, 4)}
    return next(str(number) for number in range(100000, 999999) if str(number) not in near)


def finish(service: Service, challenge: str, code: str, address: str | None = None) -> Any:
    client = service.client_at(address) if address else service.client
    return client.post("/api/auth/login/totp", json={"login_challenge_token": challenge, "code": code})


def challenge_of(service: Service, address: str = "192.0.2.10") -> str:
    challenge: str = service.try_login("anna", address=address).json()["login_challenge_token"]
    return challenge


def test_with_codes_enabled_the_password_yields_a_challenge_and_the_code_a_token(service: Service) -> None:
    with time_machine.travel(clock.now(), tick=False) as moment:
        authenticator = enrol(service)
        first = service.try_login("anna")
        body = first.json()
        assert isinstance(body.pop("login_challenge_token"), str)
        assert body == {
            "access_token": None,
            "token_type": "bearer",
            "expires_in": 600,
            "must_change_password": False,
            "totp_required": True,
        }
        moment.shift(30)
        second = finish(service, first.json()["login_challenge_token"], code(authenticator))
        assert second.status_code == 200
        assert second.json()["totp_required"] is False
        assert service.client.get("/probe/signed-in", headers=header(second.json()["access_token"])).status_code == 200


def test_a_code_works_only_once(service: Service) -> None:
    with time_machine.travel(clock.now(), tick=False) as moment:
        authenticator = enrol(service)
        used_at_enrolment = code(authenticator)
        answer = finish(service, challenge_of(service), used_at_enrolment)
        assert (answer.status_code, key_of(answer)) == (401, "auth.bad_code")
        moment.shift(30)
        assert finish(service, challenge_of(service), code(authenticator)).status_code == 200
        assert finish(service, challenge_of(service), code(authenticator)).status_code == 401
        assert finish(service, challenge_of(service), code(authenticator, -1)).status_code == 401


def test_a_challenge_works_only_once_and_expires_after_ten_minutes(service: Service) -> None:
    with time_machine.travel(clock.now(), tick=False) as moment:
        authenticator = enrol(service)
        moment.shift(30)
        challenge, late = challenge_of(service), challenge_of(service)
        assert finish(service, challenge, code(authenticator)).status_code == 200
        moment.shift(30)
        answer = finish(service, challenge, code(authenticator))
        assert (answer.status_code, key_of(answer)) == (401, "auth.challenge_invalid")
        moment.shift(timedelta(minutes=9, seconds=31))
        assert key_of(finish(service, late, code(authenticator))) == "auth.challenge_invalid"


def test_a_wrong_code_does_not_use_up_the_challenge(service: Service) -> None:
    with time_machine.travel(clock.now(), tick=False) as moment:
        authenticator = enrol(service)
        moment.shift(30)
        challenge = challenge_of(service)
        assert finish(service, challenge, wrong(authenticator)).status_code == 401
        assert finish(service, challenge, code(authenticator)).status_code == 200


def test_codes_cannot_be_guessed_with_new_challenges_or_from_many_addresses(service: Service) -> None:
    with time_machine.travel(clock.now(), tick=False) as moment:
        authenticator = enrol(service)
        moment.shift(30)
        bad = wrong(authenticator)
        codes = [
            finish(service, challenge_of(service, f"198.51.100.{number}"), bad, f"198.51.100.{number}").status_code
            for number in range(1, 8)
        ]
        assert codes == [401] * 5 + [429] * 2
        answer = finish(service, challenge_of(service), code(authenticator))
        assert answer.status_code == 429
        assert 0 < int(answer.headers["Retry-After"]) <= 900


def test_a_correct_password_alone_neither_resets_failures_nor_counts_as_one(service: Service) -> None:
    with time_machine.travel(clock.now(), tick=False):
        enrol(service)
        for _ in range(8):
            assert service.try_login("anna").status_code == 200
        assert [service.try_login("anna", "wrong").status_code for _ in range(4)] == [401] * 4
        assert service.try_login("anna").status_code == 200
        assert [service.try_login("anna", "wrong").status_code for _ in range(2)] == [401, 429]


def test_a_password_change_invalidates_a_pending_challenge(service: Service) -> None:
    with time_machine.travel(clock.now(), tick=False) as moment:
        authenticator = enrol(service)
        moment.shift(30)
        first = finish(service, challenge_of(service), code(authenticator))
        waiting = challenge_of(service, ELSEWHERE)
        body = {"current_password": PASSWORD, "new_password": "another horse"}
        service.client.post("/api/auth/change-password", json=body, headers=header(first.json()["access_token"]))
        moment.shift(30)
        assert finish(service, waiting, code(authenticator)).status_code == 401


def test_the_secret_is_encrypted_in_the_store(service: Service) -> None:
    with time_machine.travel(clock.now(), tick=False):
        authenticator = enrol(service)
        with service.database.reading() as session:
            stored = session.execute(select(User.totp_secret)).scalar_one()
    assert stored is not None
    assert stored.startswith("v1.")
    assert authenticator.secret not in stored


def test_a_new_secret_has_no_effect_until_a_code_confirms_it(service: Service) -> None:
    service.add_user("anna")
    login = service.log_in("anna")
    answer = service.client.post("/api/auth/totp/enable", json={"code": "123456"}, headers=login)
    assert (answer.status_code, key_of(answer)) == (409, "auth.totp_not_prepared")
    prepared = service.client.post("/api/auth/totp/setup", headers=login).json()
    assert prepared["otpauth_url"].startswith("otpauth://totp/Holdfast:anna?secret=" + prepared["secret"])
    bad = wrong(pyotp.TOTP(prepared["secret"]))
    answer = service.client.post("/api/auth/totp/enable", json={"code": bad}, headers=login)
    assert (answer.status_code, key_of(answer)) == (403, "auth.bad_code")
    assert service.try_login("anna").json()["totp_required"] is False


def test_disabling_codes_requires_the_password_and_a_fresh_code(service: Service) -> None:
    with time_machine.travel(clock.now(), tick=False) as moment:
        authenticator = enrol(service)
        moment.shift(30)
        token = finish(service, challenge_of(service), code(authenticator)).json()["access_token"]
        login = header(token)
        again = service.client.post("/api/auth/totp/setup", headers=login)
        assert (again.status_code, key_of(again)) == (409, "auth.totp_already_enabled")
        moment.shift(30)
        for password, shown, key in [
            ("wrong password", code(authenticator), "auth.password_wrong"),
            (PASSWORD, wrong(authenticator), "auth.bad_code"),
            (PASSWORD, code(authenticator, -1), "auth.bad_code"),
        ]:
            body = {"password": password, "code": shown}
            answer = service.client.post("/api/auth/totp/disable", json=body, headers=login)
            assert (answer.status_code, key_of(answer)) == (403, key)
        body = {"password": PASSWORD, "code": code(authenticator)}
        answer = service.client.post("/api/auth/totp/disable", json=body, headers=login)
        assert (answer.status_code, answer.json()) == (200, {"totp_enabled": False})
        assert service.try_login("anna").json()["access_token"]
        answer = service.client.post("/api/auth/totp/disable", json=body, headers=login)
        assert (answer.status_code, key_of(answer)) == (409, "auth.totp_not_enabled")


@pytest.mark.parametrize("bad", ["12345", "1234567", "12345a", "١٢٣٤٥٦", "12345\n", ""])
def test_a_code_must_have_six_ascii_digits(service: Service, bad: str) -> None:
    assert finish(service, "challenge", bad).status_code == 422
