"""An operator of one repository cannot fill the queue that all users share."""

from pathlib import Path

import pytest

from holdfast.errors import TooManyRequests
from holdfast.operations import queue
from holdfast.storage.session import Database
from tests.contract.fields import error_of
from tests.support.engines import ENGINES
from tests.support.in_process import started
from tests.support.stores import a_store
from tests.support.warm_engines import warm_program
from tests.unit.operations.kernel import BACKUP, claim, enqueue


def test_the_operations_waiting_for_one_repository_are_bounded_and_others_have_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "MOST_WAITING", 2)
    with a_store("sqlite", tmp_path) as database:
        for _ in range(3):
            assert has_room(database, 1)
            enqueue(database, BACKUP, 1)
            claim(database, capacity=1)  # the first one runs, and no longer counts

        assert not has_room(database, 1)
        assert has_room(database, 2)


def has_room(database: Database, repository: int) -> bool:
    with database.reading() as session:
        try:
            queue.require_room(session, repository)
        except TooManyRequests:
            return False
        return True


def test_every_way_to_start_work_stops_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(tmp_path / "data", borg1=str(warm_program(ENGINES["1.4"]))) as running:
        admin = running.login()
        place = {"name": "one", "path": str(tmp_path / "one"), "encryption": "none", "source_paths": [str(tmp_path)]}
        made = running.client.post("/api/repositories/", json=place, headers=admin)
        assert made.status_code == 201, made.text
        base = f"/api/repositories/{made.json()['id']}"
        monkeypatch.setattr(queue, "MOST_WAITING", 0)

        bodies = {"/api/backup/start": {"repository": place["path"]}, f"{base}/rebuild": {"from": "archives"}}
        for url in (*bodies, f"{base}/check", f"{base}/compact", f"{base}/resync"):
            body = bodies.get(url, {})
            answer = running.client.post(url, json=body, headers=admin)
            assert error_of(answer) == (429, "operations.too_many_waiting"), url
            assert answer.headers["Retry-After"] == "60"
