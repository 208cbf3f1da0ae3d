"""A service killed between claiming a message and recording its delivery sends the message again, with the same id."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.receivers import WebReceiver, web_receiver
from tests.support.service import ServiceProcess, wait_until


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceProcess]:
    process = ServiceProcess(tmp_path / "data")
    process.start()
    yield process
    process.stop()


@pytest.fixture
def receiver() -> Iterator[WebReceiver]:
    with web_receiver() as serving:
        yield serving


def test_a_message_in_flight_when_the_service_is_killed_is_sent_again_with_the_same_id(
    service: ServiceProcess, receiver: WebReceiver, tmp_path: Path
) -> None:
    admin = service.client().login()
    body = {"name": "hook", "kind": "webhook", "options": {"url": receiver.url}}
    admin.post("/api/notifications/destinations", json=body).raise_for_status()
    source = tmp_path / "source"
    source.mkdir()
    repository = admin.create_repository(tmp_path / "repository", [source], encryption="none", passphrase=None)
    tried: list[str] = []
    receiver.stall = threading.Event()
    receiver.answer = lambda got: (tried.append(got.id), (204, {}))[1]  # type: ignore[func-returns-value]

    admin.wait_for_end(admin.start_backup(repository, source_paths=[str(tmp_path / "missing")]))
    log = "/api/notifications/deliveries"
    wait_until(lambda: admin.get(log, params={"state": "sending"}).json()["deliveries"], what="it is in flight")
    (claimed,) = admin.get(log).json()["deliveries"]
    service.kill()
    receiver.stall.set()
    service.start()
    again = service.client().login()
    wait_until(lambda: again.get(log, params={"state": "sent"}).json()["deliveries"], what="it is sent")

    assert set(tried) == {f"msg_{claimed['uuid']}"}
    assert again.get(log).json()["deliveries"][0]["attempts"] == 2
