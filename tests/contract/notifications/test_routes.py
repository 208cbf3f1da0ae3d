"""/api/notifications"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.fields import error_of
from tests.support.mail import mail_server
from tests.support.receivers import WebReceiver, web_receiver
from tests.support.running import Running
from tests.support.service import Client, wait_until

DESTINATIONS, RULES, REPORTS = (f"/api/notifications/{each}" for each in ("destinations", "rules", "reports"))
DESTINATION = {
    *("id", "name", "kind", "enabled", "disabled_reason", "options", "secret_options", "waiting", "last_sent_at"),
    *("failing_since", "last_error", "created_at", "updated_at", "new_secret"),
}


@pytest.fixture
def receiver() -> Iterator[WebReceiver]:
    with web_receiver() as serving:
        yield serving


@pytest.fixture
def hook(running: Running, admin: Client, receiver: WebReceiver) -> Iterator[dict[str, Any]]:
    """A webhook destination, deleted afterwards because other tests share the service."""
    body = {"name": running.new_name("hook"), "kind": "webhook", "options": {"url": receiver.url}}
    answer = admin.post(DESTINATIONS, json=body)
    assert answer.status_code == 201, answer.text
    yield answer.json()
    admin.delete(f"{DESTINATIONS}/{answer.json()['id']}")


def quick_failure(running: Running, repository: dict[str, Any]) -> None:
    """Run a backup that fails before the engine starts."""
    job = running.admin.start_backup(repository, source_paths=[str(running.new_path("missing"))])
    running.admin.wait_for_end(job)


def test_a_destination_can_be_added_changed_and_deleted_and_shows_its_secret_once(
    admin: Client, hook: dict[str, Any]
) -> None:
    assert set(hook) == DESTINATION
    secret = hook["new_secret"]
    assert secret.startswith("whsec_")
    place = f"{DESTINATIONS}/{hook['id']}"

    changed = admin.put(place, json={"enabled": False})
    assert (changed.status_code, changed.json()["enabled"]) == (200, False)
    for answer in (admin.get(place), admin.get(DESTINATIONS), changed):
        assert secret not in answer.text
    assert admin.get(place).json()["secret_options"] == ["secret"]
    assert admin.delete(place).status_code == 204
    assert error_of(admin.get(place)) == (404, "notifications.no_such_destination")
    assert secret not in admin.get("/api/audit").text


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("webhook", {}),
        ("webhook", {"url": "http://169.254.169.254/"}),
        ("webhook", {"url": "https://example.org", "host": "x"}),
        ("webhook", {"url": "https://example.org", "secret": "whsec_short"}),
        ("smtp", {"host": "mail.example", "from": "a@b.example"}),
        ("smtp", {"host": "mail.example", "from": "a@b.example\r\nBcc: x@y", "to": ["c@d.example"]}),
        ("apprise", {"url": "file:///etc/passwd"}),
        ("ping", {"url": "https://hc.example/x"}),
        ("ping", {"url": "https://hc.example/x", "schedule_id": 7_654_321}),
    ],
)
def test_invalid_options_are_refused_and_change_nothing(
    running: Running, admin: Client, kind: str, options: dict[str, Any]
) -> None:
    before = admin.get(DESTINATIONS).json()

    answer = admin.post(DESTINATIONS, json={"name": running.new_name("bad"), "kind": kind, "options": options})

    assert answer.status_code == 422, answer.text
    assert admin.get(DESTINATIONS).json() == before


def test_a_test_message_reports_whether_it_was_delivered(
    admin: Client, hook: dict[str, Any], receiver: WebReceiver
) -> None:
    good = admin.post(f"{DESTINATIONS}/{hook['id']}/test").json()
    receiver.answer = lambda _got: (500, {})
    bad = admin.post(f"{DESTINATIONS}/{hook['id']}/test").json()

    assert (good["ok"], bad["ok"]) == (True, False)
    assert "500" in bad["message"]
    assert receiver.received[0].verified(hook["new_secret"])["type"] == "test"
    log = admin.get("/api/notifications/deliveries", params={"destination_id": hook["id"]}).json()["deliveries"]
    assert [entry["state"] for entry in log] == ["failed", "sent"]
    receiver.answer = lambda _got: (204, {})
    again = admin.post(f"/api/notifications/deliveries/{log[0]['id']}/retry")
    assert again.status_code == 200
    wait_until(lambda: len(receiver.received) == 2, what="the retry arrives")
    assert error_of(admin.post(f"/api/notifications/deliveries/{log[1]['id']}/retry")) == (
        *(409, "notifications.not_failed"),
    )


def test_rules_can_be_added_replaced_and_deleted(running: Running, admin: Client, hook: dict[str, Any]) -> None:
    name = running.new_name("rule")
    quiet = {"from": "22:00", "to": "06:00", "timezone": "Europe/Berlin", "days": ["mon"]}
    body = {"name": name, "events": ["check.*"], "quiet": quiet, "destination_ids": [hook["id"]], "enabled": False}
    added = admin.post(RULES, json=body)

    assert added.status_code == 201, added.text
    assert added.json() | body == added.json()
    place = f"{RULES}/{added.json()['id']}"
    replaced = admin.put(place, json={"name": name, "send": "every", "enabled": False, "scope": {"all": True}}).json()
    assert (replaced["quiet"], replaced["scope"]) == (None, {})
    assert error_of(admin.post(RULES, json=body)) == (409, "notifications.name_taken")
    for wrong, key in (
        ({"template": {"text": "{nonsense}"}}, "notifications.unknown_field"),
        ({"destination_ids": [7_654_321]}, "notifications.unknown_destinations"),
        ({"quiet": {**quiet, "timezone": "Mars/Base"}}, "notifications.unknown_timezone"),
    ):
        assert error_of(admin.post(RULES, json={"name": running.new_name("rule"), **wrong})) == (422, key)
    for scope in ({"repository_ids": [1], "labels": {"a": "b"}}, {"repository_ids": []}, {"all": False}):
        assert admin.post(RULES, json={"name": running.new_name("rule"), "scope": scope}).status_code == 422
    assert admin.delete(place).status_code == 204
    assert error_of(admin.delete(place)) == (404, "notifications.no_such_rule")


def test_reports_can_be_added_replaced_and_deleted(running: Running, admin: Client) -> None:
    name = running.new_name("report")
    added = admin.post(REPORTS, json={"name": name, "period": "weekly", "weekday": "sun", "enabled": False})

    assert added.status_code == 201, added.text
    assert (added.json()["weekday"], added.json()["at"]) == ("sun", "07:00")
    place = f"{REPORTS}/{added.json()['id']}"
    assert admin.put(place, json={"name": name, "at": "08:30", "enabled": False}).json()["period"] == "daily"
    assert admin.delete(place).status_code == 204


def test_a_failed_backup_and_its_recovery_are_announced_by_mail_and_webhook(
    running: Running, admin: Client, hook: dict[str, Any], receiver: WebReceiver
) -> None:
    """Uses the default rule of a new service."""
    with mail_server() as server:
        options = {"host": "127.0.0.1", "port": server.port, "security": "none"}
        body = {"name": running.new_name("mail"), "kind": "smtp"}
        people = {"from": "holdfast@example.org", "to": ["admin@example.org"]}
        mail = admin.post(DESTINATIONS, json={**body, "options": {**options, **people}}).json()
        repository = running.new_repository()
        name = repository["name"]

        def heard(word: str) -> bool:
            items = [item for item in receiver.items if item.get("repository") == name]
            return any(word in item["title"] for item in items)

        quick_failure(running, repository)
        wait_until(lambda: heard("failed"), what="the webhook tells of the failure")
        quick_failure(running, repository)
        admin.wait_for_end(admin.start_backup(repository))
        wait_until(lambda: heard("Recovered"), what="the webhook tells of the recovery")
        wait_until(
            lambda: any("Recovered" in str(message) and name in str(message) for message in server.messages),
            what="a mail tells of the recovery",
        )
        admin.delete(f"{DESTINATIONS}/{mail['id']}")

    items = [item for item in receiver.items if item.get("repository") == name]
    assert [item["incident"]["state"] for item in items] == ["opened", "recovered"]
    assert items[1]["incident"]["count"] == 2
