"""Who sees schedules, and who may change them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contract.schedules.scheduled import URL, Scheduled, refused
from tests.support.service import Client

WRITES: list[tuple[str, str, dict[str, Any] | None]] = [
    ("PUT", "", {"retries": 1}),
    ("POST", "/enable", None),
    ("POST", "/disable", None),
    ("POST", "/toggle", None),
    ("POST", "/snooze", {"until": (datetime.now(UTC) + timedelta(days=1)).isoformat()}),
    ("POST", "/duplicate", None),
    ("POST", "/run", {}),
    ("DELETE", "", None),
]


def write(client: Client, schedule: dict[str, Any], method: str, path: str, body: dict[str, Any] | None) -> Any:
    return client.request(method, f"{URL}/{schedule['id']}{path}", json=body)


def test_a_viewer_of_one_target_sees_only_that_target(scheduled: Scheduled) -> None:
    seen, hidden = (scheduled.running.new_repository() for _ in range(2))
    created, _ = scheduled.waiting(seen, hidden)
    viewer = scheduled.running.client_with_right(seen, "viewer")
    place = f"{URL}/{created['id']}"

    answers = [viewer.get(path) for path in (place, f"{URL}/", f"{place}/next", f"{place}/runs", f"{URL}/calendar")]
    assert [answer.status_code for answer in answers] == [200] * 5
    read = answers[0].json()
    assert read["targets"]["repository_ids"] == [seen["id"]]
    assert read["repositories"] == [{"id": seen["id"], "name": seen["name"]}]
    assert [row["repository_id"] for row in read["waiting"]] == [seen["id"]]
    assert [row["repository_id"] for row in answers[3].json()["runs"]] == [seen["id"]]
    for answer in answers:
        assert hidden["name"] not in answer.text
        assert hidden["path"] not in answer.text
    runs = scheduled.client.get(f"{place}/runs", params={"repository_id": hidden["id"]}).json()["runs"]
    assert refused(viewer.get(f"{URL}/runs/{runs[0]['id']}"), 404)["key"] == "schedules.run_not_found"
    assert refused(viewer.get(f"{URL}/calendar?repository_id={hidden['id']}"), 404)["key"] == "repository.not_found"


def test_a_user_without_rights_sees_nothing(scheduled: Scheduled) -> None:
    created = scheduled.new(scheduled.shared)
    stranger = scheduled.running.stranger
    place = f"{URL}/{created['id']}"

    for path in (place, f"{place}/next", f"{place}/runs"):
        assert refused(stranger.get(path), 404)["key"] == "schedules.not_found"
    for path in (f"{URL}/", f"{URL}/calendar", f"{URL}/upcoming-jobs?hours=1000"):
        assert created["name"] not in stranger.get(path).text
    for method, path, body in WRITES:
        assert refused(write(stranger, created, method, path, body), 404)["key"] == "schedules.not_found"


def test_a_viewer_may_not_change_a_schedule(scheduled: Scheduled) -> None:
    repository = scheduled.shared
    created = scheduled.new(repository)
    viewer = scheduled.running.client_with_right(repository, "viewer")

    for method, path, body in WRITES:
        assert refused(write(viewer, created, method, path, body), 403)["key"] == "access.forbidden"
    assert refused(viewer.post(f"{URL}/", json=scheduled.body(repository)), 403)["key"] == "access.forbidden"
    assert scheduled.read(created) == created


def test_an_operator_of_only_some_targets_may_not_change_the_schedule(scheduled: Scheduled) -> None:
    own, other = scheduled.shared, scheduled.running.new_repository()
    created = scheduled.new(own, other)
    operator = scheduled.running.client_with_right(own, "operator")

    for method, path, body in WRITES:
        assert refused(write(operator, created, method, path, body), 403)["key"] == "access.forbidden"
    narrowed = operator.put(f"{URL}/{created['id']}", json={"targets": {"repository_ids": [own["id"]]}})
    assert refused(narrowed, 403)["key"] == "access.forbidden"
    assert scheduled.read(created) == created


def test_an_operator_of_every_target_may_do_everything(scheduled: Scheduled) -> None:
    repository = scheduled.running.new_repository()
    operator = scheduled.running.client_with_right(repository, "operator")
    created = operator.post(f"{URL}/", json=scheduled.body(repository))
    assert created.status_code == 201, created.text

    for method, path, body in WRITES:
        answer = write(operator, created.json(), method, path, body)
        assert answer.status_code in (200, 201, 204), (path, answer.text)


def test_an_operator_cannot_add_targets_they_have_no_right_to(scheduled: Scheduled) -> None:
    own, hidden = scheduled.shared, scheduled.running.new_repository()
    operator = scheduled.running.client_with_right(own, "operator")
    created = operator.post(f"{URL}/", json=scheduled.body(own)).json()
    wider = {"targets": {"repository_ids": [own["id"], hidden["id"]]}}

    for answer in (
        operator.put(f"{URL}/{created['id']}", json=wider),
        operator.put(f"{URL}/{created['id']}", json={"repository_ids": [hidden["id"]]}),
        operator.post(f"{URL}/", json={**scheduled.body(), **wider}),
        operator.post(f"{URL}/preview", json={**scheduled.body(), **wider}),
        operator.post(f"{URL}/", json={**scheduled.body(), "repository": hidden["path"]}),
    ):
        assert answer.status_code == 404, answer.text
        assert hidden["name"] not in answer.text
    assert scheduled.read(created)["targets"]["repository_ids"] == [own["id"]]


@pytest.mark.parametrize("targets", [{"all": True}, {"labels": {"site": "north"}}])
def test_targets_by_label_require_the_operator_role_on_all_repositories(
    scheduled: Scheduled, targets: dict[str, Any]
) -> None:
    repository = scheduled.shared
    of_one = scheduled.running.client_with_right(repository, "operator")
    of_all = scheduled.running.client_of(scheduled.running.new_user("operator", all_repositories_role="operator"))
    viewer_of_all = scheduled.running.client_of(scheduled.running.new_user("operator", all_repositories_role="viewer"))
    body = scheduled.body(targets=targets, enabled=False)

    for client in (of_one, viewer_of_all):
        assert refused(client.post(f"{URL}/", json=body), 403)["key"] == "access.forbidden"
    created = of_all.post(f"{URL}/", json=body)
    assert created.status_code == 201, created.text
    for client in (of_one, viewer_of_all):
        answer = client.put(f"{URL}/{created.json()['id']}", json={"retries": 1})
        assert answer.status_code in (403, 404), answer.text
    own = of_one.post(f"{URL}/", json=scheduled.body(repository)).json()
    assert refused(of_one.put(f"{URL}/{own['id']}", json={"targets": targets}), 403)["key"] == "access.forbidden"


@pytest.mark.parametrize(("scope", "expected"), [("read", 403), ("operate", 201)])
def test_an_account_token_may_do_what_its_scope_allows(scheduled: Scheduled, scope: str, expected: int) -> None:
    repository = scheduled.shared
    body = {"name": scheduled.running.new_name("token"), "scope": scope}
    token = scheduled.client.post("/api/settings/tokens", json=body).json()["token"]
    client = scheduled.running.anonymous()
    client.headers["X-Backup-Authorization"] = f"Bearer {token}"

    assert client.post(f"{URL}/", json=scheduled.body(repository)).status_code == expected
    assert client.post(f"{URL}/preview", json=scheduled.body(repository)).status_code == 200
    assert client.post(f"{URL}/pause").status_code == 403


def test_only_admins_may_pause_schedules_or_manage_blackouts(scheduled: Scheduled) -> None:
    operator = scheduled.running.client_of(scheduled.running.new_user("operator", all_repositories_role="operator"))
    blackout = {"name": "mine", "first_day": "2030-01-01", "last_day": "2030-01-01"}

    for answer in (
        operator.post(f"{URL}/pause"),
        operator.post(f"{URL}/resume"),
        operator.get(f"{URL}/blackouts"),
        operator.post(f"{URL}/blackouts", json=blackout),
        operator.delete(f"{URL}/blackouts/1"),
    ):
        assert refused(answer, 403)["key"] == "access.forbidden"


def test_a_schedule_keeps_running_when_its_creator_is_deleted(scheduled: Scheduled) -> None:
    repository = scheduled.running.new_repository()
    user = scheduled.running.new_user("operator", all_repositories_role="operator")
    created = scheduled.running.client_of(user).post(f"{URL}/", json=scheduled.body(repository)).json()
    assert scheduled.client.delete(f"/api/users/{user['id']}").status_code == 204

    read = scheduled.read(created)
    assert (read["enabled"], read["created_by"]) == (True, user["username"])
    assert scheduled.settled(scheduled.run(created)["runs"][0]["id"])["result"] == "completed"
