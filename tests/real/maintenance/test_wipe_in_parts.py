"""Wipes that stop half way report exactly the archives that are gone. Here each archive is its own batch."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from holdfast.access.first_admin import ensure_first_admin
from holdfast.composition import Service
from holdfast.maintenance.wipe import wipe_job
from holdfast.settings import Settings
from holdfast.storage.migrate import migrate
from holdfast.storage.session import Database
from tests.real.maintenance.world import NAMES
from tests.support.archive_sets import OwnEngine
from tests.support.engines import ENGINES
from tests.support.held_engine import HeldEngine
from tests.support.service import ADMIN_PASSWORD, wait_until


class Inside:
    """The service inside this process, with an engine that can be held."""

    def __init__(self, folder: Path, client: TestClient, engine: HeldEngine) -> None:
        self.folder = folder
        self.client = client
        self.engine = engine
        self.own_engine = OwnEngine(engine.engine, folder / "data")

    def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        answer = self.client.request(method, path, json=body)
        assert answer.status_code < 300, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def new_repository(self, name: str) -> dict[str, Any]:
        source = self.folder / f"source-of-{name}"
        source.mkdir()
        (source / "file").write_text(name)
        body = {"name": name, "path": str(self.folder / name), "encryption": "none", "index_mode": "off"}
        repository = self.call("POST", "/api/repositories/", {**body, "source_paths": [str(source)]})
        for archive in NAMES:
            self.own_engine.run("create", f"{repository['path']}::{archive}", str(source))
        return repository

    def start_wipe(self, repository: dict[str, Any]) -> int:
        place = f"/api/repositories/{repository['id']}"
        seen = self.call("POST", f"{place}/wipe-preview", {})
        body = {
            "preview_id": seen["id"],
            "preview_fingerprint": seen["archive_fingerprint"],
            "confirmation_phrase": f"WIPE {repository['name']}",
            "understood": True,
        }
        job_id: int = self.call("POST", f"{place}/wipe", body)["id"]
        return job_id

    def end_of(self, repository: dict[str, Any], job_id: int) -> dict[str, Any]:
        place = f"/api/repositories/{repository['id']}/wipe-jobs/{job_id}"
        return wait_until(
            lambda: job if (job := self.call("GET", place))["status"] not in ("pending", "running") else None,
            what="the wipe ends",
        )

    def left(self, repository: dict[str, Any]) -> set[str]:
        return set(self.own_engine.archives(repository))


@contextmanager
def inside(folder: Path) -> Iterator[Inside]:
    engine = HeldEngine(folder / "engine", ENGINES["1.4"])
    settings = Settings(data_dir=folder / "data", borg1=str(engine.program), admin_password=ADMIN_PASSWORD)
    settings.data_dir.mkdir(mode=0o700)
    database = Database(settings.store_url)
    migrate(database)
    ensure_first_admin(database, settings)
    with TestClient(Service(settings, database).app()) as client:
        login = client.post("/api/auth/login", data={"username": "admin", "password": ADMIN_PASSWORD})
        client.headers["X-Backup-Authorization"] = f"Bearer {login.json()['access_token']}"
        yield Inside(folder, client, engine)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with pytest.MonkeyPatch.context() as patch, inside(tmp_path_factory.mktemp("inside")) as service:
        patch.setattr(wipe_job, "BATCH", 1)
        yield service


def test_a_wipe_that_fails_after_its_first_batch_is_a_partial_failure(service: Inside) -> None:
    repository = service.new_repository("fails")
    before = len(service.engine.done("delete"))
    with service.engine.held("after", "delete"):
        job_id = service.start_wipe(repository)
        service.engine.wait_until_held("after", "delete", before + 1)
        failing = service.engine.held("fail", "delete")
        failing.__enter__()
    job = service.end_of(repository, job_id)
    failing.__exit__(None, None, None)

    assert (job["status"], job["phase"], job["error_key"]) == (
        "failed_partial",
        "delete_failed_partial",
        "engine.failed",
    )
    assert (job["deleted"], set(job["remaining"])) == (["first"], {"second", "third"})
    assert (job["deleted_count"], job["remaining_count"]) == (1, 2)
    assert service.left(repository) == {"second", "third"}
    detail = service.call("GET", f"/api/operations/{job_id}")
    assert detail["status"] == "failed"
    assert detail["detail"]["status"] == "failed_partial"


def test_a_wipe_whose_first_batch_fails_removes_nothing(service: Inside) -> None:
    repository = service.new_repository("fails-at-once")
    with service.engine.held("fail", "delete"):
        job = service.end_of(repository, service.start_wipe(repository))

    assert (job["status"], job["phase"]) == ("failed", "delete_failed")
    assert (job["deleted_count"], job["remaining_count"]) == (0, 3)
    assert service.left(repository) == set(NAMES)


def test_a_wipe_cancelled_between_its_batches_reports_what_is_gone(service: Inside) -> None:
    repository = service.new_repository("cancelled")
    before = len(service.engine.done("delete"))
    with service.engine.held("after", "delete"):
        job_id = service.start_wipe(repository)
        service.engine.wait_until_held("after", "delete", before + 1)
        service.call("POST", f"/api/repositories/{repository['id']}/wipe-jobs/{job_id}/cancel")
        job = service.end_of(repository, job_id)

    assert (job["status"], job["phase"]) == ("cancelled", "cancelled")
    assert (job["deleted"], job["deleted_count"], job["remaining_count"]) == (["first"], 1, 2)
    assert service.left(repository) == {"second", "third"}


def test_a_wipe_whose_compaction_fails_has_still_removed_everything(service: Inside) -> None:
    repository = service.new_repository("not-compacted")
    with service.engine.held("fail", "compact"):
        job_id = service.start_wipe(repository)
        job = service.end_of(repository, job_id)

    assert (job["status"], job["phase"]) == ("completed_compaction_failed", "compact_failed")
    assert (job["deleted_count"], job["remaining_count"]) == (3, 0)
    assert job["warnings"][0]["message"]
    assert service.left(repository) == set()
    assert service.call("GET", f"/api/operations/{job_id}")["status"] == "completed_with_warnings"


def test_a_wipe_that_could_not_list_what_is_left_is_retried_and_counts_correctly(service: Inside) -> None:
    repository = service.new_repository("blind")
    before = len(service.engine.done("delete"))
    with service.engine.held("after", "delete"):
        job_id = service.start_wipe(repository)
        service.engine.wait_until_held("after", "delete", before + 1)
        blind = service.engine.held("fail", "list")
        blind.__enter__()
    attempts = wait_until(
        lambda: found if (found := service.call("GET", f"/api/operations/{job_id}"))["attempt"] > 1 else None,
        what="the wipe is tried again",
    )
    assert attempts["status"] in ("pending", "running", "failed")
    blind.__exit__(None, None, None)

    job = service.end_of(repository, job_id)

    assert (job["status"], job["phase"]) == ("completed", "completed")
    assert (job["deleted_count"], job["remaining_count"]) == (3, 0)
    assert service.left(repository) == set()
