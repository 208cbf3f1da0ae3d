from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import time_machine
from sqlalchemy import func, select

from holdfast.access.models import LoginFailure
from holdfast.kit import clock
from tests.contract.access.application import ELSEWHERE, PASSWORD, Service, key_of


def test_after_five_failures_even_the_correct_password_is_refused_for_15_minutes(service: Service) -> None:
    service.add_user("anna")
    with time_machine.travel(clock.now(), tick=False) as moment:
        assert [service.try_login("anna", "wrong").status_code for _ in range(5)] == [401] * 5
        answer = service.try_login("anna")
        assert (answer.status_code, key_of(answer)) == (429, "auth.too_many_failures")
        assert int(answer.headers["Retry-After"]) == 900
        moment.shift(timedelta(minutes=10))
        assert int(service.try_login("anna").headers["Retry-After"]) == 300
        moment.shift(timedelta(minutes=5, seconds=1))
        assert service.try_login("anna").status_code == 200


def test_a_successful_login_resets_earlier_failures(service: Service) -> None:
    service.add_user("anna")
    for _ in range(3):
        assert [service.try_login("anna", "wrong").status_code for _ in range(4)] == [401] * 4
        assert service.try_login("anna").status_code == 200


def test_failures_are_counted_over_a_sliding_window_of_15_minutes(service: Service) -> None:
    service.add_user("anna")
    with time_machine.travel(clock.now(), tick=False) as moment:
        service.try_login("anna", "wrong")
        moment.shift(timedelta(minutes=14))
        assert [service.try_login("anna", "wrong").status_code for _ in range(3)] == [401] * 3
        moment.shift(timedelta(minutes=2))  # the first failure has left the window, the other three have not
        assert [service.try_login("anna", "wrong").status_code for _ in range(3)] == [401, 401, 429]


def test_spelling_the_username_differently_does_not_bypass_the_throttle(service: Service) -> None:
    service.add_user("anna")
    for name in ("anna", "Anna", "ANNA", " anna", "anna "):
        assert service.try_login(name, "wrong").status_code == 401
    assert service.try_login("aNNa").status_code == 429


def test_an_unknown_username_is_throttled_like_a_registered_one(service: Service) -> None:
    codes = [service.try_login("nobody", "wrong").status_code for _ in range(6)]
    assert codes == [401] * 5 + [429]


def test_other_addresses_and_other_users_are_not_throttled(service: Service) -> None:
    service.add_user("anna")
    service.add_user("bert")
    for _ in range(6):
        service.try_login("anna", "wrong")
    assert service.try_login("anna", address=ELSEWHERE).status_code == 200
    assert service.try_login("bert").status_code == 200
    assert service.try_login("anna").status_code == 429


def test_a_header_that_claims_another_address_is_ignored(service: Service) -> None:
    service.add_user("anna")
    codes = []
    for number in range(6):
        spoofed = {"X-Forwarded-For": f"10.0.0.{number}", "Forwarded": f"for=10.0.0.{number}", "X-Real-IP": "10.1.1.1"}
        form = {"username": "anna", "password": "wrong"}
        codes.append(service.client.post("/api/auth/login", data=form, headers=spoofed).status_code)
    assert codes == [401] * 5 + [429]


def test_the_addresses_of_one_ipv6_network_count_together(service: Service) -> None:
    service.add_user("anna")
    codes = [
        service.try_login("anna", "wrong", address=f"2001:db8:0:1::{number:x}").status_code for number in range(1, 7)
    ]
    assert codes == [401] * 5 + [429]
    assert service.try_login("anna", address="2001:db8:0:2::1").status_code == 200


def test_of_many_simultaneous_guesses_only_five_are_tried(service: Service) -> None:
    service.add_user("anna")
    with ThreadPoolExecutor(16) as pool:
        codes = list(pool.map(lambda _: service.try_login("anna", "wrong").status_code, range(32)))
    assert sorted(codes) == [401] * 5 + [429] * 27


def test_many_simultaneous_correct_logins_all_succeed(service: Service) -> None:
    service.add_user("anna")
    with ThreadPoolExecutor(16) as pool:
        codes = list(pool.map(lambda _: service.try_login("anna", PASSWORD).status_code, range(16)))
    assert codes == [200] * 16


def test_failure_counts_are_removed_when_they_no_longer_matter(service: Service) -> None:
    def stored() -> int:
        with service.database.reading() as session:
            return session.execute(select(func.count()).select_from(LoginFailure)).scalar_one()

    service.try_login("nobody", "wrong")
    service.access.tidy()
    assert stored() == 1
    service.access.tidy(clock.now() + timedelta(minutes=31))
    assert stored() == 0
