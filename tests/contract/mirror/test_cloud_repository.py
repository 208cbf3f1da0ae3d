"""Repositories that are created in the cloud: a local working copy, mirrored there completely."""

from pathlib import Path
from typing import Any

import pytest

from tests.contract.fields import error_of
from tests.support.rclone import are_equal
from tests.support.running import Running


def remote(running: Running) -> dict[str, Any]:
    body = {"name": running.new_name("cloud"), "provider": "local"}
    created: dict[str, Any] = running.admin.post("/api/rclone/remotes", json=body).json()
    return created


def create(running: Running, **more: Any) -> Any:
    body = {"name": running.new_name("in-the-cloud"), "repository_type": "rclone", "encryption": "none", **more}
    return running.admin.post("/api/repositories/", json=body)


def test_a_repository_created_with_a_remote_address_is_mirrored_from_the_start(running: Running) -> None:
    folder = running.new_path("bucket")

    created = create(running, path=f"rclone:{remote(running)['name']}:{folder}")

    assert created.status_code == 201, created.text
    repository = created.json()
    latest = repository["latest_sync_job"]
    assert (repository["repository_type"], latest["triggered_by"], latest["operation"]) == ("rclone", "initial", "sync")
    assert running.admin.wait_for_end(latest["id"])["status"] == "completed"
    working_copy = Path(repository["path"])
    assert working_copy.is_relative_to(running.process.data_dir)
    assert are_equal(working_copy, folder)


def test_the_folder_of_the_working_copy_and_the_mirror_settings_can_be_chosen(running: Running) -> None:
    path, folder = running.new_path("copy"), running.new_path("bucket")
    mirror = {"remote_id": remote(running)["id"], "path": str(folder), "mode": "interval", "interval_minutes": 30}

    created = create(running, path=str(path), mirror=mirror)

    assert created.status_code == 201, created.text
    assert created.json()["path"] == str(path)
    told = running.admin.get(f"/api/repositories/{created.json()['id']}/mirror").json()
    assert (told["mode"], told["interval_minutes"], told["path"]) == ("interval", 30, str(folder))
    assert running.admin.wait_for_end(created.json()["latest_sync_job"]["id"])["status"] == "completed"


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"path": "rclone:nobody:somewhere"}, "mirror.bad_address"),
        ({"path": "rclone:{remote}"}, "mirror.bad_address"),
        ({"path": "rclone:{remote}:relative"}, "mirror.bad_path"),
        ({"path": "{new}"}, "mirror.address_missing"),
        ({"path": "{new}", "mirror": {"remote_id": 7_654_321, "path": "/x"}}, "rclone.remote_not_found"),
    ],
)
def test_a_repository_that_cannot_be_mirrored_is_not_created(
    running: Running, wrong: dict[str, Any], refusal: str
) -> None:
    new = running.new_path("copy")
    wrong = {**wrong, "path": wrong["path"].format(remote=remote(running)["name"], new=new)}

    answer = create(running, **wrong)

    assert error_of(answer) == (422, refusal)
    assert not new.exists()
