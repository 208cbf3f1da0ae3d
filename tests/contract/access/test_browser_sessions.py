"""The login of a browser: a cookie in addition to the access token, which only two routes read."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from sqlalchemy import update

from holdfast.access.models import User
from holdfast.access.vault import Vault
from holdfast.kit.tokens import next_token
from tests.contract.access.application import PASSWORD, Service, header, key_of

WEB = {"X-Holdfast-Web": "1", "Origin": "http://testserver", "Sec-Fetch-Site": "same-origin"}
COOKIE = "holdfast_refresh"


def log_in(service: Service, **headers: str) -> Any:
    sent = {**WEB, **headers}
    return service.client.post("/api/auth/login", data={"username": "anna", "password": PASSWORD}, headers=sent)


def cookie_of(answer: Any) -> str:
    return answer.cookies[COOKIE]


def refresh(service: Service, cookie: str | None, **headers: str) -> Any:
    service.client.cookies.clear()
    sent = {**WEB, **headers}
    if cookie is not None:
        sent["Cookie"] = f"{COOKIE}={cookie}"
    return service.client.post("/api/auth/refresh", headers=sent)


@pytest.fixture(autouse=True)
def anna(service: Service) -> None:
    service.add_user("anna")


def test_a_login_sets_a_cookie_for_browsers_only(service: Service) -> None:
    assert "set-cookie" not in service.try_login("anna").headers
    header_line = log_in(service).headers["set-cookie"]
    assert header_line.startswith(f"{COOKIE}=bk_web_")
    for part in ("HttpOnly", "SameSite=strict", "Path=/api/auth"):
        assert part in header_line
    assert "Secure" not in header_line


def test_over_tls_the_cookie_is_marked_secure(service: Service) -> None:
    header_line = log_in(service, Origin="https://testserver").headers["set-cookie"]
    assert header_line.startswith(f"__Secure-{COOKIE}=")
    assert "; Secure" in header_line


def test_the_cookie_gets_a_new_access_token_and_a_new_cookie(service: Service) -> None:
    first = cookie_of(log_in(service))
    answer = refresh(service, first)
    assert answer.status_code == 200
    assert cookie_of(answer) != first
    token = answer.json()["access_token"]
    assert service.client.get("/api/auth/me", headers=header(token)).json()["username"] == "anna"


def test_a_repeated_refresh_gets_the_same_cookie_again(service: Service) -> None:
    with time_machine.travel("2026-03-01T12:00:00Z", tick=False) as traveller:
        first = cookie_of(log_in(service))
        lost = cookie_of(refresh(service, first))
        traveller.shift(timedelta(seconds=10))
        held = cookie_of(refresh(service, first))
        assert held == lost
        traveller.shift(timedelta(minutes=25))
        answer = refresh(service, held)
        assert answer.status_code == 200
        cookies = (first, held, cookie_of(answer))
        assert len(set(cookies)) == 3
        assert {len(one) for one in cookies} == {len(first)}


def test_cookies_of_other_sessions_and_services_differ(service: Service) -> None:
    key, other = b"k" * 32, b"o" * 32
    made = {next_token("p", *each) for each in ((key, "1|a"), (key, "2|a"), (key, "1|b"), (other, "1|a"))}
    assert len(made) == 4
    assert service.access.vault.cookie_key() != service.access.vault.signing_key(service.access.vault.active_key_id)


def test_a_repeated_refresh_after_the_key_was_replaced_gets_no_wrong_cookie(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = cookie_of(log_in(service))
    second = cookie_of(refresh(service, first))
    monkeypatch.setattr(Vault, "cookie_key", lambda _: b"o" * 32)
    again = refresh(service, first)
    assert (again.status_code, again.cookies.get(COOKIE)) == (200, None)
    assert refresh(service, second).status_code == 200


def test_a_copied_cookie_ends_the_session(service: Service) -> None:
    with time_machine.travel("2026-03-01T12:00:00Z", tick=False) as traveller:
        first = cookie_of(log_in(service))
        answer = refresh(service, first)
        second, token = cookie_of(answer), answer.json()["access_token"]
        traveller.shift(timedelta(seconds=11))
        assert key_of(refresh(service, first)) == "auth.session_ended"
        assert key_of(refresh(service, second)) == "auth.session_ended"
        assert service.client.get("/api/auth/me", headers=header(token)).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://elsewhere.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "null"},
    ],
)
def test_another_site_cannot_use_the_cookie(service: Service, headers: dict[str, str]) -> None:
    cookie = cookie_of(log_in(service))
    answer = refresh(service, cookie, **headers)
    assert (answer.status_code, key_of(answer)) == (403, "auth.other_origin")
    assert refresh(service, cookie).status_code == 200


def test_without_the_header_a_cookie_is_not_accepted_as_a_credential(service: Service) -> None:
    cookie = cookie_of(log_in(service))
    service.client.cookies.clear()
    sent = {"Cookie": f"{COOKIE}={cookie}", "Origin": "http://testserver"}
    for method, path in (("POST", "/api/auth/refresh"), ("GET", "/api/auth/me"), ("POST", "/api/auth/logout")):
        assert service.client.request(method, path, headers=sent).status_code == 401
    assert service.client.get("/api/auth/me", headers={**WEB, **sent}).status_code == 401


def test_a_logout_ends_the_session_and_deletes_the_cookie(service: Service) -> None:
    answer = log_in(service)
    cookie, token = cookie_of(answer), answer.json()["access_token"]
    service.client.cookies.clear()
    ended = service.client.post("/api/auth/logout", headers={**WEB, **header(token)})
    assert ended.status_code == 204
    assert f'{COOKIE}=""' in ended.headers["set-cookie"]
    assert key_of(refresh(service, cookie)) == "auth.session_ended"


@pytest.mark.parametrize("cookie", [None, "", "bk_web_nonsense", "x" * 4000])
def test_a_missing_or_unknown_cookie_is_refused(service: Service, cookie: str | None) -> None:
    answer = refresh(service, cookie)
    assert (answer.status_code, key_of(answer)) == (401, "auth.session_ended")


def test_a_disabled_user_cannot_refresh(service: Service) -> None:
    cookie = cookie_of(log_in(service))
    with service.database.writing() as session:
        session.execute(update(User).values(disabled=True))
    assert refresh(service, cookie).status_code == 401
