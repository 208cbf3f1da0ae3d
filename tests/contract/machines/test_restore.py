"""Restores to an ssh machine: by the engine that runs there, or streamed there by the service."""

from pathlib import Path
from typing import Any

import pytest

from tests.contract.fields import error_of
from tests.support.engines import ENGINES
from tests.support.running import Running, Services
from tests.support.service import Client
from tests.support.sshd import Sshd
from tests.support.warm_engines import warm_program

ENGINE = str(warm_program(ENGINES["1.4"]))


@pytest.fixture(scope="module")
def connection(services: Services, machine: Sshd) -> int:
    running = services.get()
    return machine.connection(running.admin, running.new_name("machine"), engine_path=ENGINE)


@pytest.fixture(scope="module", params=["local", "ssh"])
def backed_up(request: pytest.FixtureRequest, services: Services, connection: int) -> dict[str, Any]:
    """A repository with an archive, opened by the service or on the machine."""
    running = services.get()
    admin = running.admin
    far = {"execution_target": "ssh", "ssh_connection_id": connection} if request.param == "ssh" else {}
    source = running.new_source()
    (source / "folder").mkdir()
    (source / "folder" / "linked").symlink_to("nowhere")
    (source / "folder" / "with a 'name'").write_text("quoted")
    repository = running.new_repository(source_paths=[source], **far)
    assert admin.wait_for_end(admin.start_backup(repository, archive_name="whole"))["status"] == "completed"
    return repository


def restored(admin: Client, repository: dict[str, Any], **more: Any) -> dict[str, Any]:
    body = {"repository_id": repository["id"], "archive": "whole", "destination_type": "ssh", **more}
    answer = admin.post("/api/restore/start", json=body)
    assert answer.status_code == 200, answer.text
    return admin.wait_for_end(answer.json()["job_id"])


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def test_an_archive_is_restored_on_the_machine_and_nothing_else_is_left_behind(
    running: Running, admin: Client, connection: int, backed_up: dict[str, Any]
) -> None:
    source, target = Path(backed_up["source_paths"][0]), running.new_path("made") / "below"
    ended = restored(admin, backed_up, destination=str(target), destination_machine_id=connection)

    assert ended["status"] == "completed", (ended["error_key"], ended["error_message"])
    assert ended["result"]["files_restored"] == len(tree(source))
    assert tree(target / str(source).lstrip("/")) == tree(source)
    assert [entry.name for entry in target.iterdir()] == [source.parts[1]]


@pytest.mark.campaign
def test_existing_files_are_kept_replaced_or_stop_the_restore(
    running: Running, admin: Client, connection: int, backed_up: dict[str, Any]
) -> None:
    source, target = Path(backed_up["source_paths"][0]), running.new_folder("occupied")
    (target / "file-0").write_text("mine")
    wanted = {
        "destination": str(target),
        "destination_machine_id": connection,
        "paths": [str(source)],
        "restore_layout": "contents_only",
    }

    failed = restored(admin, backed_up, overwrite="fail", **wanted)
    assert (failed["status"], failed["error_key"]) == ("failed", "restore.conflicts")
    assert tree(target) == {"file-0": "mine"}
    kept = restored(admin, backed_up, overwrite="skip", **wanted)
    assert (kept["status"], kept["result"]["files_skipped"]) == ("completed", 1)
    assert tree(target) == {**tree(source), "file-0": "mine"}
    restored(admin, backed_up, overwrite="replace", **wanted)
    assert tree(target) == tree(source)


@pytest.mark.campaign
def test_nothing_is_written_through_an_existing_link(
    running: Running, admin: Client, connection: int, backed_up: dict[str, Any]
) -> None:
    source, target, elsewhere = (
        Path(backed_up["source_paths"][0]),
        running.new_folder("trap"),
        running.new_folder("elsewhere"),
    )
    (target / source.parts[1]).symlink_to(elsewhere)
    ended = restored(admin, backed_up, destination=str(target), destination_machine_id=connection, overwrite="replace")

    assert (ended["status"], ended["error_key"]) == ("failed", "restore.incomplete")
    assert list(elsewhere.iterdir()) == []


@pytest.mark.campaign
def test_a_restore_of_a_missing_path_and_a_dry_run_write_nothing(
    running: Running, admin: Client, connection: int, backed_up: dict[str, Any]
) -> None:
    target = running.new_path("untouched")
    wanted = {"destination": str(target), "destination_machine_id": connection}
    missing = restored(admin, backed_up, paths=["/no/such/file"], **wanted)
    tried = restored(admin, backed_up, dry_run=True, **wanted)

    assert (missing["status"], missing["error_key"]) == ("failed", "archives.path_not_found")
    assert (tried["status"], tried["result"]["files"] > 3) == ("completed", True)
    assert not target.exists()


def test_a_preview_lists_the_conflicts_on_the_machine_and_writes_nothing(
    running: Running, admin: Client, connection: int, backed_up: dict[str, Any]
) -> None:
    source, target = Path(backed_up["source_paths"][0]), running.new_folder("occupied")
    (target / "file-0").write_text("mine")
    (target / "folder").write_text("no folder")
    body = {
        "repository_id": backed_up["id"],
        "archive": "whole",
        "paths": [str(source)],
        "destination": str(target),
        "destination_type": "ssh",
        "destination_machine_id": connection,
        "restore_layout": "contents_only",
    }
    before = tree(target)
    answer = admin.post("/api/restore/preview", json=body)
    linked = running.new_path("linked")
    linked.symlink_to(target)

    assert answer.status_code == 200, answer.text
    preview = answer.json()
    assert preview["files"] == len(tree(source))
    archived = str(source).lstrip("/")
    in_the_way = "something other than a folder exists where a folder is needed"
    assert {one["path"]: one["reason"] for one in preview["conflicts"]} == {
        f"{archived}/file-0": "a file already exists there",
        f"{archived}/folder": in_the_way,
        f"{archived}/folder/linked": in_the_way,
        f"{archived}/folder/with a 'name'": in_the_way,
    }
    assert preview["conflict_count"] == 4
    assert (preview["would_write"], preview["would_keep"]) == (preview["files"] - 3, 3)
    assert preview["free_bytes"] > 0
    assert tree(target) == before
    refused = admin.post("/api/restore/preview", json={**body, "destination": str(linked)})
    assert error_of(refused) == (422, "restore.destination_is_link")
    nowhere = admin.post("/api/restore/preview", json={**body, "destination": f"{target}/not/there"})
    assert (nowhere.status_code, nowhere.json()["conflicts"]) == (200, [])


def test_a_preview_reports_why_the_machine_cannot_be_reached(
    running: Running, admin: Client, own_machine: Sshd
) -> None:
    connection = own_machine.connection(admin, running.new_name("machine"), engine_path=ENGINE)
    assert admin.post(f"/api/ssh-connections/{connection}/test", json={}).status_code == 200
    own_machine.stop()
    body = {
        "repository_id": running.known.repository["id"],
        "archive": admin.operation(running.known.job_id)["archive_name"],
        "destination": "/x",
        "destination_type": "ssh",
        "destination_machine_id": connection,
    }

    assert error_of(admin.post("/api/restore/preview", json=body)) == (422, "ssh.connection_refused")


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({}, "restore.machine_missing"),
        ({"destination_machine_id": 7_654_321}, "restore.unknown_machine"),
    ],
)
def test_a_missing_or_unknown_machine_is_refused(
    running: Running, admin: Client, more: dict[str, Any], key: str
) -> None:
    known = running.known
    body = {
        "repository_id": known.repository["id"],
        "archive": "x",
        "destination": "/x",
        "destination_type": "ssh",
        **more,
    }
    name = admin.operation(known.job_id)["archive_name"]

    assert error_of(admin.post("/api/restore/start", json={**body, "archive": name})) == (422, key)


def test_a_repository_on_the_machine_is_refused_as_a_destination(
    running: Running, admin: Client, connection: int
) -> None:
    far = {"execution_target": "ssh", "ssh_connection_id": connection}
    there = running.new_repository(**far)
    name = admin.operation(running.known.job_id)["archive_name"]
    body = {
        "repository_id": running.known.repository["id"],
        "archive": name,
        "destination": there["path"] + "/data",
        "destination_type": "ssh",
        "destination_machine_id": connection,
    }

    assert error_of(admin.post("/api/restore/start", json=body)) == (422, "restore.destination_forbidden")


def test_a_wider_restore_skips_a_repository_on_the_machine_and_the_data_of_the_service(
    running: Running, admin: Client, connection: int
) -> None:
    """The ssh machine is this host, so the service's own folder is protected there too."""
    there = Path(running.new_repository(execution_target="ssh", ssh_connection_id=connection)["path"])
    config, key = (there / "config").read_bytes(), (running.process.data_dir / "secret.key").read_bytes()
    source = running.new_folder("forged")
    for name in (f"{there.name}/config", f"{running.process.data_dir.name}/secret.key", f"made-{there.name}"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text("forged")
    repository = running.new_repository(source_paths=[source])
    assert admin.wait_for_end(admin.start_backup(repository, archive_name="whole"))["status"] == "completed"
    more = {"paths": [str(source)], "restore_layout": "contents_only", "overwrite": "replace"}

    ended = restored(admin, repository, destination=str(there.parent), destination_machine_id=connection, **more)

    assert ended["status"] == "completed_with_warnings", (ended["error_key"], ended["error_message"])
    assert (there / "config").read_bytes() == config
    assert (running.process.data_dir / "secret.key").read_bytes() == key
    assert (there.parent / f"made-{there.name}").read_text() == "forged"
    assert (ended["result"]["files_restored"], ended["result"]["files_passed_over"]) == (1, 2)


def test_a_backup_run_on_the_machine_excludes_the_service_on_it(
    running: Running, admin: Client, connection: int
) -> None:
    """The ssh machine is this host."""
    above = running.process.data_dir.parent
    far = {"execution_target": "ssh", "ssh_connection_id": connection}
    excluded = [f"{above}/repository-*", f"{above}/source-*"]
    repository = running.new_repository(source_paths=[above], exclude_patterns=excluded, custom_flags=[], **far)

    ended = admin.wait_for_end(admin.start_backup(repository, archive_name="whole"))

    assert ended["status"].startswith("completed"), ended
    target = running.new_path("looked-at")
    restored(admin, repository, destination=str(target), destination_machine_id=connection)
    assert (target / str(above).lstrip("/")).is_dir()
    assert not (target / str(running.process.data_dir).lstrip("/")).exists()
