from typing import Any

import httpx2
import pytest

from tests.contract.fields import error_of, is_timestamp
from tests.support.postgres import start_postgres_server
from tests.support.running import Running
from tests.support.service import ServiceProcess, wait_until


def test_liveness_is_public(running: Running) -> None:
    answer = running.anonymous().get("/health/live")

    assert answer.status_code == 200
    assert answer.json()["status"] == "ok"


def test_readiness_is_public(running: Running) -> None:
    def ready() -> Any:
        answer = running.anonymous().get("/health/ready")
        assert answer.status_code == 200
        return answer.json() if "last_tick_at" in answer.json() else None

    found = wait_until(ready, what="schedules tick")
    assert (found["status"], found["store"]) == ("ok", "reachable")
    assert set(found) == {"status", "store", "last_tick_at"}
    assert is_timestamp(found["last_tick_at"])


def test_without_its_store_the_service_is_alive_but_not_ready_and_sends_retry_after(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("no-store")
    server = start_postgres_server()
    service = ServiceProcess(folder / "data", database_url=server.create_database())
    try:
        service.launch()
        service.wait_until_ready()
        client = service.client().login()
        server.stop()

        wait_until(lambda: client.get("/health/ready").status_code == 503, what="not ready")
        refused = client.get("/api/repositories/")
        assert error_of(refused) == (503, "store.unavailable")
        assert int(refused.headers["Retry-After"]) > 0
        assert client.get("/health/ready").json() == {"status": "unavailable", "store": "unreachable"}
        assert client.get("/health/live").status_code == 200
    finally:
        server.stop()
        assert service.stop() == 0
    with pytest.raises(httpx2.TransportError):
        httpx2.get(f"{service.url}/health/live", timeout=5)
