"""A schedule fails and recovers on a real service: a mail and a ping announce both, and the counters include them."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.mail import MailServer, mail_server
from tests.support.receivers import WebReceiver, web_receiver
from tests.support.service import Client, ServiceProcess, wait_until


@pytest.fixture
def receiver() -> Iterator[WebReceiver]:
    with web_receiver() as receiver:
        yield receiver


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with mail_server() as mail:
        yield mail


@pytest.fixture
def service(tmp_path: Path, receiver: WebReceiver) -> Iterator[ServiceProcess]:
    alive = f"http://127.0.0.1:{receiver.port}/alive"
    process = ServiceProcess(tmp_path / "data", {"HOLDFAST_PING_URL": alive})
    process.start()
    yield process
    process.stop()


def run(admin: Client, schedule: dict[str, Any]) -> str:
    """Run a schedule to its end and return its result."""
    started = admin.post(f"/api/schedules/{schedule['id']}/run", json={}).raise_for_status().json()
    path = f"/api/schedules/runs/{started['runs'][0]['id']}"
    wait_until(lambda: admin.get(path).json()["settled_at"], what="the run has ended")
    result: str = admin.get(path).json()["result"]
    return result


def test_a_failing_schedule_and_its_recovery_are_announced_by_mail_and_pings(
    service: ServiceProcess, receiver: WebReceiver, mail: MailServer, tmp_path: Path
) -> None:
    admin = service.client().login()
    source = tmp_path / "source"
    source.mkdir()
    (source / "letter").write_text("Dear Anna")
    repository = admin.create_repository(tmp_path / "repository", [source], encryption="none", passphrase=None)
    targets = {"repository_ids": [repository["id"]]}
    body = {"name": "nightly", "cron_expression": "0 2 * * *", "targets": targets}
    schedule = admin.post("/api/schedules/", json=body).raise_for_status().json()
    smtp = {
        "host": "127.0.0.1",
        "port": mail.port,
        "security": "none",
        "from": "nas@example.org",
        "to": ["me@example.org"],
    }
    ping = {"url": f"http://127.0.0.1:{receiver.port}/ping", "schedule_id": schedule["id"]}
    for name, options in (("smtp", smtp), ("ping", ping)):
        destination = {"name": name, "kind": name, "options": options}
        admin.post("/api/notifications/destinations", json=destination).raise_for_status()

    shutil.move(source, tmp_path / "away")
    assert run(admin, schedule) == "failed"
    wait_until(lambda: len(mail.messages) == 1, what="the failure is in a mail")
    assert "failed" in str(mail.messages[0]["Subject"])
    shutil.move(tmp_path / "away", source)
    assert run(admin, schedule) == "completed"
    wait_until(lambda: len(mail.messages) == 2, what="the recovery is in a mail")
    assert "recovered" in mail.messages[1].as_string().lower()

    def pings() -> list[str]:
        return [got.path.split("?")[0] for got in receiver.received if got.path.startswith("/ping")]

    wait_until(lambda: len(pings()) == 4, what="every ping has arrived")
    assert pings() == ["/ping/start", "/ping/fail", "/ping/start", "/ping"]
    wait_until(lambda: any(got.path == "/alive" for got in receiver.received), what="the service says that it is alive")
    token = admin.post("/api/settings/tokens", json={"name": "metrics", "scope": "metrics"}).json()["token"]
    scraping = service.client()
    scraping.headers["Authorization"] = f"Bearer {token}"
    counted = 'holdfast_deliveries_total{kind="smtp",state="sent"} 2'
    wait_until(lambda: counted in scraping.get("/metrics").text, what="the deliveries are counted")
