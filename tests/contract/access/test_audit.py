import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from sqlalchemy import func, select

from holdfast.access import audit
from holdfast.access.models import AuditEntry, AuditIsAppendOnly
from holdfast.access.roles import Role
from holdfast.access.routes import audit as audit_routes
from holdfast.errors import Unavailable
from holdfast.kit import clock
from tests.contract.access.application import HOME, Service, key_of


@pytest.fixture
def admin(service: Service) -> dict[str, str]:
    service.add_user("root", Role.ADMIN)
    return service.log_in("root")


def record(service: Service, action: str = "probe.event", **details: object) -> None:
    with service.database.writing() as session:
        audit.record(session, actor=None, action=action, details=details)


def stored(service: Service) -> int:
    with service.database.reading() as session:
        return session.execute(select(func.count()).select_from(AuditEntry)).scalar_one()


def test_an_entry_has_actor_action_object_outcome_and_address(service: Service, admin: dict[str, str]) -> None:
    user_id = service.client.post(
        "/api/users", json={"username": "anna", "password": "correct horse", "role": "viewer"}, headers=admin
    ).json()["id"]
    entry = service.client.get("/api/audit?action=users.created&actor=root", headers=admin).json()["entries"][0]
    assert entry.pop("id") > 0
    assert entry.pop("at").endswith("+00:00")
    assert entry.pop("actor_user_id") > 0
    assert entry == {
        "actor": "root",
        "action": "users.created",
        "object_type": "user",
        "object_id": str(user_id),
        "outcome": "ok",
        "address": HOME,
        "details": {"username": "anna", "role": "viewer"},
    }


def test_pages_are_newest_first_and_stable_while_entries_are_added(service: Service, admin: dict[str, str]) -> None:
    for number in range(7):
        record(service, number=number)
    seen: list[int] = []
    cursor = ""
    while True:
        page = service.client.get(f"/api/audit?action=probe.event&limit=3{cursor}", headers=admin).json()
        seen += [entry["details"]["number"] for entry in page["entries"]]
        record(service, number=100)
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == [6, 5, 4, 3, 2, 1, 0]


def test_a_full_last_page_has_no_next_page(service: Service, admin: dict[str, str]) -> None:
    for _ in range(3):
        record(service)
    page = service.client.get("/api/audit?action=probe.event&limit=3", headers=admin).json()
    assert (len(page["entries"]), page["next_cursor"]) == (3, None)


def test_entries_are_filtered_by_time_actor_and_action(service: Service, admin: dict[str, str]) -> None:
    with time_machine.travel(clock.now() - timedelta(days=2)):
        record(service, "probe.old")
    since = (clock.now() - timedelta(days=1)).isoformat()

    def actions(**filters: str) -> set[str]:
        page = service.client.get("/api/audit", params=filters, headers=admin).json()
        return {entry["action"] for entry in page["entries"]}

    assert "probe.old" in actions()
    assert "probe.old" not in actions(since=since)
    assert actions(action="probe.old") == {"probe.old"}
    assert actions(actor="root") == {"auth.login"}
    assert actions(actor="nobody") == set()


def test_entries_are_filtered_by_end_object_and_outcome(service: Service, admin: dict[str, str]) -> None:
    with time_machine.travel(clock.now() - timedelta(days=2)):
        record(service, "probe.old")
    with service.database.writing() as session:
        for number in (1, 2):
            audit.record(session, actor=None, action=f"probe.{number}", object_type="probe", object_id=number)
        audit.record(session, actor=None, action="probe.refused", outcome="refused")

    def actions(**filters: str) -> set[str]:
        page = service.client.get("/api/audit", params=filters, headers=admin).json()
        assert exported(service, admin, **filters) == page["entries"]
        return {entry["action"] for entry in page["entries"]}

    assert actions(until=(clock.now() - timedelta(days=1)).isoformat()) == {"probe.old"}
    assert actions(object_type="probe") == {"probe.1", "probe.2"}
    assert actions(object_type="probe", object_id="2") == {"probe.2"}
    assert actions(object_id="3") == set()
    assert actions(outcome="refused") == {"probe.refused"}
    assert actions(outcome="ok", actor="root") == {"auth.login"}


def exported(service: Service, login: dict[str, str], **filters: str) -> list[dict[str, Any]]:
    answer = service.client.get("/api/audit/export", params=filters, headers=login)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines()]


def test_an_export_contains_every_entry_once_whatever_the_batch_size(
    service: Service, admin: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_routes, "EXPORTED_AT_ONCE", 3)
    for number in range(7):
        record(service, number=number, text="a line\nand another \N{LINE SEPARATOR}")
    for count in (7, 6):  # the last batch is a smaller one, or empty
        entries = exported(service, admin, action="probe.event", since=since_of(service, count))
        assert [entry["details"]["number"] for entry in entries] == [6, 5, 4, 3, 2, 1, 0][:count]


def since_of(service: Service, count: int) -> str:
    return service.entries("probe.event")[-count].at.isoformat()


def test_only_admins_may_export_and_invalid_filters_are_refused(service: Service, admin: dict[str, str]) -> None:
    service.add_user("anna", Role.OPERATOR)
    assert service.client.get("/api/audit/export", headers=service.log_in("anna")).status_code == 403
    assert service.client.get("/api/audit/export").status_code == 401
    assert service.client.get("/api/audit/export?until=tomorrow", headers=admin).status_code == 422


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=501",
        "since=yesterday",
        "cursor=x",
        "actor=a%00b",
        "until=x",
        "object_id=a%00b",
        "since=0001-01-01T00:00:00%2B14:00",
    ],
)
def test_a_malformed_query_is_refused(service: Service, admin: dict[str, str], query: str) -> None:
    assert service.client.get(f"/api/audit?{query}", headers=admin).status_code == 422


def test_an_entry_cannot_be_changed_or_removed(service: Service) -> None:
    record(service)
    with pytest.raises(AuditIsAppendOnly), service.database.writing() as session:
        session.execute(select(AuditEntry)).scalars().first().outcome = "other"  # type: ignore[union-attr]
    with pytest.raises(AuditIsAppendOnly), service.database.writing() as session:
        session.delete(session.execute(select(AuditEntry)).scalars().first())
    assert stored(service) == 1


def test_characters_that_a_store_cannot_hold_are_replaced(service: Service) -> None:
    record(service, text="a\0b\ud800c", nested={"list": ["\0", Role.VIEWER, 1, None]})
    (entry,) = service.entries("probe.event")
    assert entry.details == {
        "text": "a\N{REPLACEMENT CHARACTER}b?c",
        "nested": {"list": ["\N{REPLACEMENT CHARACTER}", "viewer", 1, None]},
    }


def test_an_entry_is_rolled_back_with_the_change_it_records(service: Service) -> None:
    service.add_user("anna")
    login = service.log_in("anna")
    refused = service.client.post("/probe/work/1", json={"subject": "x", "fail": True}, headers=login)
    assert refused.status_code == 404
    assert service.entries("probe.work") == []


def test_refusals_are_recorded_with_caller_address_and_reason(service: Service) -> None:
    user_id = service.add_user("anna")
    login = service.log_in("anna")
    service.client.get("/probe/admin?token=secret", headers=login)
    service.client.get("/probe/admin")
    known, unknown = service.entries("access.refused")
    assert (known.actor, known.actor_user_id, known.outcome, known.address) == ("anna", user_id, "refused", HOME)
    assert known.details == {"key": "access.forbidden", "status": 403, "method": "GET", "path": "/probe/admin"}
    assert (unknown.actor, unknown.details["status"] if unknown.details else None) == (None, 401)


def test_a_refusal_by_the_plan_and_a_throttled_login_are_recorded(service: Service) -> None:
    service.settings.plan = "community"
    service.add_user("anna")
    assert service.client.get("/probe/history", headers=service.log_in("anna")).status_code == 403
    for _ in range(6):
        service.try_login("anna", "wrong")
    assert [entry.details["key"] for entry in service.entries("access.refused") if entry.details] == [
        "plan.feature_not_available"
    ]
    logins = [
        entry.details["key"] for entry in service.entries("auth.login") if entry.outcome == "refused" and entry.details
    ]
    assert logins == ["auth.bad_credentials"] * 5 + ["auth.too_many_failures"]


def test_repeated_refusals_are_summarised_so_that_they_cannot_fill_the_disk(service: Service) -> None:
    with time_machine.travel(clock.now(), tick=False) as moment:
        before = stored(service)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: service.client.get("/probe/admin"), range(60)))
        assert stored(service) - before == 5
        moment.shift(timedelta(seconds=61))
        service.access.tidy()
        assert stored(service) - before == 6
        summary = service.entries("access.refused")[-1]
        assert summary.details == {
            "key": "auth.credential_missing",
            "status": 401,
            "method": "GET",
            "route": "/probe/admin",
            "repeated": 55,
        }


def test_a_refusal_is_still_returned_when_the_store_is_unavailable(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise Unavailable("store.unavailable", "away")

    monkeypatch.setattr(service.access.refusals, "_database", type("Away", (), {"writing": staticmethod(away)})())
    answer = service.client.get("/probe/admin")
    assert (answer.status_code, key_of(answer)) == (401, "auth.credential_missing")
