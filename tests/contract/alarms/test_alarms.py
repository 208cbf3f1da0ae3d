"""The routes of alarms: who sees and acknowledges them, and who sets thresholds."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from holdfast.access.models import AuditEntry
from holdfast.alarms.evaluate import ROUNDS
from holdfast.alarms.models import Alarm
from holdfast.kit import clock
from holdfast.operations.models import OutboxEntry
from tests.support.evidence import add_agent_machine, add_repository
from tests.support.in_process import InProcess, started
from tests.support.running import PASSWORD

LATE = timedelta(days=10)
ITEM = {
    *(
        "id",
        "kind",
        "severity",
        "state",
        "subject",
        "repository_id",
        "since",
        "seen_at",
        "evidence_known",
        "cleared_at",
    ),
    *("evidence", "message", "acknowledged_by", "acknowledged_at", "acknowledged_until", "comment"),
}


class World:
    """Two overdue repositories, one visible to a viewer and an operator, and an agent with a wrong clock."""

    def __init__(self, service: InProcess) -> None:
        self.service = service
        self.client = service.client
        self.admin = service.login()
        now = clock.now()
        with service.service.database.writing() as session:
            self.seen = add_repository(session, name="seen", created_at=now - LATE).id
            self.hidden = add_repository(session, name="hidden-heron", created_at=now - LATE).id
            add_agent_machine(session, clock_skew_seconds=500.0)
        self.viewer, self.operator = self.user("viewer"), self.user("operator")
        self.stranger = self.user("stranger", role="operator", sees=False)
        service.service.parts[ROUNDS].run(now)
        service.service.parts[ROUNDS].run(now + timedelta(minutes=11))

    def user(self, name: str, *, role: str | None = None, sees: bool = True) -> dict[str, str]:
        body = {"username": name, "password": PASSWORD, "role": role or name, "must_change_password": False}
        made = self.client.post("/api/users", json=body, headers=self.admin).json()
        if sees:
            path = f"/api/users/{made['id']}/repositories/{self.seen}"
            assert self.client.put(path, json={"role": name}, headers=self.admin).status_code == 200
        return self.service.login(name, PASSWORD)

    def list(self, who: dict[str, str], **params: Any) -> list[dict[str, Any]]:
        answer = self.client.get("/api/alarms", params=params, headers=who)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["alarms"]
        return found

    def one(self, kind: str, who: dict[str, str] | None = None) -> dict[str, Any]:
        return next(alarm for alarm in self.list(who or self.admin) if alarm["kind"] == kind)

    def acknowledge(self, who: dict[str, str], alarm: int, **body: Any) -> tuple[int, Any]:
        answer = self.client.post(f"/api/alarms/{alarm}/acknowledge", json=body, headers=who)
        return answer.status_code, answer.json() if answer.status_code == 200 else answer.json()["detail"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    with started(tmp_path_factory.mktemp("alarms") / "data", role="api") as running:
        yield running


@pytest.fixture(scope="module")
def world(service: InProcess) -> World:
    return World(service)


def test_an_admin_sees_all_alarms_with_every_field(world: World) -> None:
    found = world.list(world.admin)

    assert {alarm["kind"] for alarm in found} == {"backup_overdue", "schedule_missing", "clock_skew"}
    assert all(set(alarm) == ITEM for alarm in found)
    overdue = next(alarm for alarm in found if alarm["subject"]["name"] == "seen" and alarm["kind"] == "backup_overdue")
    assert overdue["subject"] == {"type": "repository", "id": world.seen, "name": "seen"}
    assert overdue["message"].startswith("seen: ")
    assert (overdue["state"], overdue["severity"], overdue["evidence_known"]) == ("open", "warning", True)
    assert overdue["evidence"]["threshold_seconds"] == 7 * 86400


def test_a_viewer_sees_only_alarms_of_visible_repositories_and_none_of_agents(world: World) -> None:
    found = world.list(world.viewer)

    assert {(alarm["kind"], alarm["repository_id"]) for alarm in found} == {
        ("backup_overdue", world.seen),
        ("schedule_missing", world.seen),
    }
    assert "heron" not in str(found)


def test_a_user_without_rights_gets_the_responses_of_a_service_without_repositories(world: World) -> None:
    for params in ({}, {"severity": "warning"}, {"state": "cleared"}, {"limit": 1}):
        answer = world.client.get("/api/alarms", params=params, headers=world.stranger)
        assert answer.json() == {"alarms": [], "next_cursor": None}
    refused = world.client.get("/api/alarms", params={"repository_id": world.hidden}, headers=world.stranger)
    nothing = world.client.get("/api/alarms", params={"repository_id": 999_999}, headers=world.stranger)
    assert (refused.status_code, refused.json()["detail"]["key"]) == (404, "repository.not_found")
    assert refused.text.replace(str(world.hidden), "N") == nothing.text.replace("999999", "N")
    status = world.client.get("/api/activity/status", headers=world.stranger).json()
    assert (status["alarms"], status["verdict"]) == ([], "ok")


def test_pages_list_every_alarm_once(world: World) -> None:
    whole = [alarm["id"] for alarm in world.list(world.admin)]
    found, cursor = [], None
    while True:
        params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        answer = world.client.get("/api/alarms", params=params, headers=world.admin).json()
        found += [alarm["id"] for alarm in answer["alarms"]]
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    assert found == whole == sorted(whole, reverse=True)


@pytest.mark.parametrize("params", [{"state": "odd"}, {"severity": "odd"}, {"limit": 0}, {"cursor": "odd"}])
def test_an_unknown_filter_is_refused(world: World, params: dict[str, Any]) -> None:
    assert world.client.get("/api/alarms", params=params, headers=world.admin).status_code == 422


def test_an_operator_may_acknowledge_an_alarm_and_a_viewer_may_not(world: World) -> None:
    alarm = world.one("schedule_missing", world.viewer)["id"]
    assert world.acknowledge(world.viewer, alarm)[0] == 403
    assert world.acknowledge(world.stranger, alarm)[1]["key"] == "alarms.not_found"
    status, item = world.acknowledge(world.operator, alarm, comment="it is retired")
    assert (status, item["state"], item["acknowledged_by"], item["comment"]) == (
        200,
        "acknowledged",
        "operator",
        "it is retired",
    )
    assert alarm in {one["id"] for one in world.list(world.admin, state="acknowledged")}
    assert alarm not in {one["id"] for one in world.list(world.admin, state="open")}
    shown = world.client.get("/api/activity/status", headers=world.operator).json()
    assert shown["verdict"] == "attention"
    assert [one["kind"] for one in shown["alarms"]] == ["backup_overdue"]
    with world.service.service.database.reading() as session:
        assert session.scalars(select(AuditEntry.action).where(AuditEntry.action == "alarm.acknowledged")).first()
        told = session.scalars(select(OutboxEntry).where(OutboxEntry.topic == "alarm.changed")).all()
    assert [(row.payload["id"], row.payload["reason"], row.repository_id) for row in told] == [
        (alarm, "acknowledged", item["repository_id"])
    ]


def test_only_admins_may_acknowledge_alarms_of_agents(world: World) -> None:
    alarm = world.one("clock_skew")["id"]
    assert world.acknowledge(world.operator, alarm)[0] == 404
    until = (clock.now() + timedelta(hours=1)).isoformat()
    status, item = world.acknowledge(world.admin, alarm, until=until)
    assert (status, item["state"]) == (200, "acknowledged")


def test_an_invalid_acknowledgement_is_refused_and_changes_nothing(world: World) -> None:
    alarm = next(one for one in world.list(world.admin) if one["repository_id"] == world.hidden)
    past = (clock.now() - timedelta(hours=1)).isoformat()
    assert world.acknowledge(world.admin, alarm["id"], until=past)[1]["key"] == "alarms.until_past"
    assert world.acknowledge(world.admin, alarm["id"], odd=1)[0] == 422
    assert world.acknowledge(world.admin, alarm["id"], comment="x" * 1001)[0] == 422
    assert world.acknowledge(world.admin, 999_999)[1]["key"] == "alarms.not_found"
    with world.service.service.database.writing() as session:
        row = session.get_one(Alarm, alarm["id"])
        assert row.acknowledged_by is None
        row.state, row.cleared_at = "cleared", clock.now()
    status, detail = world.acknowledge(world.admin, alarm["id"])
    assert (status, detail["key"]) == (409, "alarms.cleared")


def test_only_admins_may_read_or_change_thresholds(world: World) -> None:
    for method in ("get", "put"):
        answer = world.client.request(method, "/api/alarms/settings", json={}, headers=world.operator)
        assert (answer.status_code, answer.json()["detail"]["key"]) == (403, "access.forbidden")


def test_thresholds_can_be_set_globally_and_per_repository_and_reset(world: World) -> None:
    url = "/api/alarms/settings"
    before = world.client.get(url, headers=world.admin).json()
    assert before["thresholds"]["storage_free_percent"] == 10
    assert "backup_overdue" in before["kinds"]
    wanted = {
        "thresholds": {**before["thresholds"], "agent_silent_hours": 48},
        "repositories": [{"repository_id": world.seen, "thresholds": {"storage_free_percent": 5, "off": ["damaged"]}}],
    }
    after = world.client.put(url, json=wanted, headers=world.admin).json()
    assert after["thresholds"]["agent_silent_hours"] == 48
    assert [one["repository_id"] for one in after["repositories"]] == [world.seen]
    assert after["repositories"][0]["thresholds"]["storage_free_percent"] == 5
    back = {"thresholds": before["thresholds"], "repositories": [{"repository_id": world.seen, "thresholds": None}]}
    assert world.client.put(url, json=back, headers=world.admin).json() == before


@pytest.mark.parametrize(
    "body",
    [
        {"thresholds": {"storage_free_percent": 95}},
        {"thresholds": {"odd": 1}},
        {"thresholds": {"off": ["odd"]}},
        {"repositories": [{"repository_id": 999_999, "thresholds": {}}]},
        {"repositories": [{"repository_id": 1, "thresholds": {"agent_silent_hours": 1}}]},
    ],
)
def test_invalid_thresholds_are_refused_and_change_nothing(world: World, body: dict[str, Any]) -> None:
    before = world.client.get("/api/alarms/settings", headers=world.admin).json()
    answer = world.client.put("/api/alarms/settings", json=body, headers=world.admin)

    assert answer.status_code in (404, 422), answer.text
    assert world.client.get("/api/alarms/settings", headers=world.admin).json() == before
