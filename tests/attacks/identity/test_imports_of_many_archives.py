"""An import of many archives queries the engine once for all of them."""

from collections.abc import Iterator

import pytest

from holdfast.archives.measure_archives import FEW
from tests.support.running import Running, Services
from tests.support.service import wait_until

ARCHIVES = FEW + 1


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    services = Services(tmp_path_factory.mktemp("services"))
    yield services.get()
    services.stop()


@pytest.mark.parametrize("mode", ["archives", pytest.param("full", marks=pytest.mark.campaign)])
def test_the_sizes_of_all_imported_archives_are_queried_once(running: Running, mode: str) -> None:
    path, source = running.new_path("imported"), running.new_source()
    running.outside.init(path, encryption="none")
    for number in range(ARCHIVES):
        running.outside.create(path, f"archive-{number:02}", source)
    before = len(running.engine_calls())
    body = {"name": path.name, "path": str(path), "encryption": "none", "index_mode": mode}

    repository = running.admin.post("/api/repositories/import", json=body).json()
    running.wait_until_idle()

    url = f"/api/repositories/{repository['id']}/archives"
    listed = running.admin.get(url).json()["archives"]
    assert len(listed) == ARCHIVES
    assert all(archive["original_size"] and archive["nfiles"] for archive in listed)
    asked = [call for call in running.engine_calls()[before:] if " info " in f" {call} "]
    assert len([call for call in asked if "--glob-archives" in call]) == 1
    assert len(asked) <= 3, asked


def test_the_history_of_an_import_does_not_wait_for_the_sizes(running: Running) -> None:
    path, source = running.new_path("imported"), running.new_source()
    running.outside.init(path, encryption="none")
    for number in range(ARCHIVES):
        running.outside.create(path, f"archive-{number:02}", source)
    body = {"name": path.name, "path": str(path), "encryption": "none", "index_mode": "full"}

    repository = running.admin.post("/api/repositories/import", json=body).json()
    wait_until(lambda: _ended(running, repository["id"], "history"), what="the history is built")

    listing = _ended(running, repository["id"], "archives")
    assert listing is not None
    assert listing["result"]["measured_archives"] == 0


def _ended(running: Running, repository_id: int, kind: str) -> dict[str, object] | None:
    query = {"repository_id": repository_id, "kind": kind}
    items = running.admin.get("/api/operations/", params=query).json()["items"]
    found = [item for item in items if item["kind"] == kind and item["status"] == "completed"]
    return found[0] if found else None
