"""GET /api/operations/"""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tests.contract.backup.jobs import missing_backup
from tests.contract.fields import MORE_OPERATION, OPERATION, error_of, is_timestamp
from tests.contract.stores import both_stores
from tests.support.running import Running

EVERY_FILTER = (
    *("repository_id", "category[]", "kind[]", "status[]", "trigger[]", "run_id", "since", "limit", "cursor"),
    *("until", "machine_id", "triggered_by", "q"),
)
NOTHING = {"items": [], "next_cursor": None, "total": 0}


def listed(running: Running, params: Any) -> list[int]:
    answer = running.admin.get("/api/operations/", params=params)
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


def test_an_item_has_all_fields_of_the_contract(running: Running) -> None:
    known = running.known

    answer = running.admin.get("/api/operations/", params={"repository_id": known.repository["id"]})

    assert answer.status_code == 200
    assert set(answer.json()) == {"items", "next_cursor", "total"}
    item = next(item for item in answer.json()["items"] if item["id"] == known.job_id)
    assert set(item) == OPERATION | MORE_OPERATION
    assert item["activity_key"] == f"operation:{known.job_id}"
    assert (item["kind"], item["type"], item["category"]) == ("backup", "backup", "backup")
    assert (item["status"], item["trigger"], item["priority"], item["attempt"]) == ("completed", "manual", 0, 1)
    assert (item["repository_id"], item["repository"]) == (known.repository["id"], known.repository["name"])
    assert item["repository_path"] == known.repository["path"]
    assert (item["triggered_by"], item["has_logs"], item["progress_percent"]) == ("admin", True, 100)
    assert all(is_timestamp(item[name]) for name in ("created_at", "started_at", "completed_at"))
    assert item["duration_seconds"] > 0
    assert item["archive_name"] == item["result"]["archive"]["name"]
    for name in ("parent_id", "depends_on_id", "machine_id", "queued_reason", "queued_behind_id", "error_message"):
        assert item[name] is None
    for name in ("error_key", "skip_reason", "schedule_id", "schedule_name", "package_name"):
        assert item[name] is None
    assert item["followups"] == []
    assert item["cancel_requested"] is False


@both_stores
def test_filters_narrow_the_list_alone_and_combined(running: Running) -> None:
    repository, jobs = running.several
    of_it = {"repository_id": repository["id"]}
    check = running.admin.post(f"/api/repositories/{repository['id']}/check", json={}).json()["job_id"]
    running.admin.wait_for_end(check)
    run_id = running.admin.operation(jobs["cancelled"])["run_id"]
    backups = sorted(jobs.values(), reverse=True)

    assert listed(running, of_it)[: len(backups) + 1] == [check, *backups]
    assert listed(running, {**of_it, "kind": "check"}) == [check]
    assert listed(running, {**of_it, "category": "maintenance"}) == [check]
    assert listed(running, {**of_it, "category": ["maintenance", "backup"]}) == [check, *backups]
    assert listed(running, {**of_it, "status": ["failed", "cancelled"]}) == sorted(
        (jobs["failed"], jobs["cancelled"]), reverse=True
    )
    assert listed(running, {**of_it, "trigger": "retry"}) == [jobs["failed"]]
    assert listed(running, {"run_id": run_id}) == [jobs["failed"], jobs["cancelled"]]
    assert listed(running, {"run_id": run_id, "status": "failed", "kind": "backup", **of_it}) == [jobs["failed"]]
    assert listed(running, {"run_id": run_id, "repository_id": running.known.repository["id"]}) == []
    assert listed(running, {**of_it, "kind": "check", "category": "backup"}) == []
    assert listed(running, {"repository_id": 999_999}) == []
    running.admin.delete(f"/api/activity/check/{check}")


@pytest.mark.parametrize("filtered", ["category", "kind", "status", "trigger", "status[]"])
def test_an_unknown_filter_value_is_refused_and_the_error_lists_the_allowed_ones(
    running: Running, filtered: str
) -> None:
    answer = running.admin.get("/api/operations/", params={filtered: ["backup", "nonsense"]})

    assert error_of(answer) == (422, "filters.unknown_value")
    params = answer.json()["detail"]["params"]
    assert params["field"] == filtered.removesuffix("[]")
    assert all(word in answer.json()["detail"]["message"] for word in params["allowed"])


@pytest.mark.parametrize("filtered", ["category", "job_type", "status", "trigger"])
def test_the_activity_list_refuses_unknown_filter_values_too(running: Running, filtered: str) -> None:
    answer = running.admin.get("/api/activity/recent", params={filtered: "nonsense"})

    assert error_of(answer) == (422, "filters.unknown_value")
    assert running.admin.get("/api/activity/recent", params={"job_type": "script_execution"}).json() == []


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("status", ["failed", "cancelled"]),
        ("kind", ["backup", "check"]),
        ("category", ["backup", "index"]),
        ("trigger", ["manual", "retry"]),
    ],
)
def test_a_filter_works_with_and_without_brackets(running: Running, name: str, values: list[str]) -> None:
    repository, _ = running.several
    of_it = {"repository_id": repository["id"]}

    plain = listed(running, {**of_it, name: values})

    assert plain
    assert listed(running, {**of_it, f"{name}[]": values}) == plain
    assert listed(running, {**of_it, name: values[:1], f"{name}[]": values[1:]}) == plain


def test_since_accepts_a_time_with_any_offset(running: Running) -> None:
    repository = running.new_repository()
    old, new = (missing_backup(running, repository) for _ in range(2))
    created = datetime.fromisoformat(running.admin.operation(new)["created_at"])
    of_it = {"repository_id": repository["id"]}

    for offset in (0, 5.5, -8):
        moment = created.astimezone(timezone(timedelta(hours=offset)))
        assert listed(running, {**of_it, "since": moment.isoformat()}) == [new]
    assert listed(running, {**of_it, "since": f"{created:%Y-%m-%dT%H:%M:%S.%f}Z"}) == [new]
    assert listed(running, {**of_it, "since": (created + timedelta(days=1)).isoformat()}) == []
    assert listed(running, {**of_it, "since": "2020-01-01T00:00:00+00:00"}) == [new, old]


def test_since_and_until_select_a_span_and_the_total_counts_every_match(running: Running) -> None:
    repository = running.new_repository()
    jobs = [missing_backup(running, repository) for _ in range(3)]
    times = [running.admin.operation(job)["created_at"] for job in jobs]
    of_it = {"repository_id": repository["id"]}

    assert listed(running, {**of_it, "until": times[1]}) == [jobs[1], jobs[0]]
    assert listed(running, {**of_it, "since": times[1], "until": times[1]}) == [jobs[1]]
    page = running.admin.get("/api/operations/", params={**of_it, "limit": 1}).json()
    assert (page["total"], len(page["items"])) == (3, 1)


@both_stores
def test_a_search_finds_names_and_messages_in_any_case(running: Running) -> None:
    repository = running.new_repository(name=running.new_name("Odd_%name"))
    job = missing_backup(running, repository)
    message = running.admin.operation(job)["error_message"]

    for text in (repository["name"].upper(), "odd_%NAME", message[3:30].upper()):
        found = running.admin.get("/api/operations/", params={"q": text, "repository_id": repository["id"]}).json()
        assert ([item["id"] for item in found["items"]], found["total"]) == ([job], 1)
    assert listed(running, {"q": "Odd_%name"}) == [job]
    assert listed(running, {"q": "Odd%name"}) == []
    assert listed(running, {"triggered_by": "ADMIN", "repository_id": repository["id"]}) == [job]
    assert listed(running, {"triggered_by": "admi", "repository_id": repository["id"]}) == []
    assert listed(running, {"machine_id": 999, "repository_id": repository["id"]}) == []


def test_the_activity_list_has_pages_and_the_same_filters(running: Running) -> None:
    repository = running.new_repository()
    jobs = [missing_backup(running, repository) for _ in range(3)]
    params: dict[str, Any] = {"repository_id": repository["id"], "limit": 2}

    first = running.admin.get("/api/activity/recent", params=params)
    rest = running.admin.get("/api/activity/recent", params={**params, "cursor": first.headers["X-Next-Cursor"]})
    found = running.admin.get("/api/activity/recent", params={"q": repository["name"], "triggered_by": "admin"})

    assert [item["id"] for item in (*first.json(), *rest.json())] == jobs[::-1]
    assert "X-Next-Cursor" not in rest.headers
    assert [item["id"] for item in found.json()] == jobs[::-1]


@both_stores
def test_pages_stay_stable_while_new_operations_arrive(running: Running) -> None:
    repository = running.new_repository()
    old = [missing_backup(running, repository) for _ in range(5)]
    seen: list[int] = []
    cursor: str | None = None

    while True:
        params = {"repository_id": repository["id"], "limit": 2, **({"cursor": cursor} if cursor else {})}
        page = running.admin.get("/api/operations/", params=params).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        missing_backup(running, repository)

    assert seen == sorted(old, reverse=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", 0),
        ("limit", 501),
        ("limit", "hunter2"),
        ("repository_id", "hunter2"),
        ("since", "hunter2"),
        ("until", "hunter2"),
        ("machine_id", "hunter2"),
        ("q", ""),
        ("q", "a\0b"),
        ("triggered_by", "x" * 201),
        ("run_id", ""),
        ("status", "x" * 65),
        ("kind[]", "a\0b"),
    ],
)
def test_a_malformed_filter_is_refused_without_echoing_its_value(running: Running, name: str, value: object) -> None:
    answer = running.admin.get("/api/operations/", params={name: value})

    assert answer.status_code == 422
    assert "hunter2" not in answer.text


@pytest.mark.parametrize("cursor", ["!!", "WzEsMl0", "WyJhIl0", "Wzk5OTk5OTk5OTk5OTk5OTk5OTk5OTld"])
def test_an_invalid_cursor_is_refused(running: Running, cursor: str) -> None:
    answer = running.admin.get("/api/operations/", params={"cursor": cursor})

    assert error_of(answer) == (422, "paging.bad_cursor")


def test_the_document_lists_every_filter_once_and_the_default_limit_is_100(running: Running) -> None:
    document = running.anonymous().get("/api/openapi.json").json()
    parameters = {entry["name"]: entry for entry in document["paths"]["/api/operations/"]["get"]["parameters"]}

    assert set(EVERY_FILTER) <= set(parameters)
    assert not {"category", "kind", "status", "trigger"} & set(parameters)  # each is declared once
    limit = parameters["limit"]["schema"]
    assert (limit["default"], limit["minimum"], limit["maximum"]) == (100, 1, 500)


def test_a_user_sees_only_operations_of_visible_repositories(running: Running) -> None:
    repository, jobs = running.several
    viewer = running.client_with_right(repository, "viewer")
    everywhere = running.client_of(running.new_user("viewer", all_repositories_role="viewer"))

    theirs = viewer.get("/api/operations/").json()["items"]

    assert {item["repository_id"] for item in theirs} == {repository["id"]}
    assert set(jobs.values()) <= {item["id"] for item in theirs}
    of_another = {"repository_id": running.known.repository["id"]}
    assert viewer.get("/api/operations/", params=of_another).json() == NOTHING
    assert running.stranger.get("/api/operations/").json() == NOTHING
    assert running.stranger.get("/api/operations/", params={"q": repository["name"]}).json() == NOTHING
    run_id = running.admin.operation(jobs["failed"])["run_id"]
    assert running.stranger.get("/api/operations/", params={"run_id": run_id}).json()["items"] == []
    assert set(jobs.values()) <= {
        item["id"] for item in everywhere.get("/api/operations/", params={"limit": 500}).json()["items"]
    }


def test_an_account_token_may_list_operations(running: Running) -> None:
    answer = running.anonymous().get("/api/operations/", headers={"Authorization": f"Bearer {running.token}"})

    assert answer.status_code == 200
