"""Backups as a way to reach the service's own data: the key, the store, the first admin's password."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.places.own import (
    archived,
    backed_up,
    bound,
    data_folder,
    own_files,
    repository_of,
)
from tests.support.engines import ENGINE_2
from tests.support.running import Running, Services
from tests.support.service import Client

engines = pytest.mark.parametrize(
    "engine", [1, pytest.param(2, marks=pytest.mark.skipif(ENGINE_2 is None, reason="there is no engine 2"))]
)


Untouched = tuple[dict[str, Any], Client]


@pytest.fixture(scope="module")
def untouched(services: Services) -> Untouched:
    """A repository without archives, and its operator: for requests that are refused."""
    running = services.get()
    source = running.new_source()
    (source / "way-out").symlink_to("/etc")
    repository = repository_of(running, source)
    return repository, running.client_with_right(repository, "operator")


def refusal(client: Client, path: str, body: dict[str, Any]) -> tuple[int, str]:
    answer = client.post(path, json=body)
    return answer.status_code, answer.json()["detail"]["key"]


@pytest.mark.parametrize("route", ["/api/backup/start", "/api/backup/run"])
def test_an_operator_cannot_back_up_the_data_folder(running: Running, untouched: Untouched, route: str) -> None:
    repository, operator = untouched

    body = {"repository": repository["path"], "source_paths": [str(data_folder(running))]}

    assert refusal(operator, route, body) == (403, "backup.sources_not_allowed")
    assert not running.admin.get("/api/backup/jobs", params={"repository_id": repository["id"]}).json()["jobs"]


@pytest.mark.parametrize("path", ["/etc", "{source}/../{data}", "{source}/./file-0", "{source}x", "/", "{link}/passwd"])
def test_an_operator_cannot_back_up_paths_outside_the_sources(
    running: Running, untouched: Untouched, path: str
) -> None:
    repository, operator = untouched
    source = Path(repository["source_paths"][0])
    named = path.format(source=source, data=data_folder(running).name, link=source / "way-out")

    body = {"repository": repository["path"], "source_paths": [str(source), named]}

    assert refusal(operator, "/api/backup/start", body) == (403, "backup.sources_not_allowed")


def test_an_operator_may_back_up_paths_below_the_sources(running: Running) -> None:
    source = running.new_source()
    repository = repository_of(running, source)
    operator = running.client_with_right(repository, "operator")

    ended = backed_up(operator, repository, source_paths=[f"{source}//file-1"])

    assert ended["status"] == "completed"
    assert archived(running, repository, ended) == [str(source / "file-1").lstrip("/")]


def test_an_operator_cannot_retry_an_admins_wider_backup(running: Running) -> None:
    repository = repository_of(running, running.new_source())
    operator = running.client_with_right(repository, "operator")
    failed = running.admin.wait_for_end(
        running.admin.start_backup(repository, source_paths=[str(running.new_path("missing"))])
    )

    assert refusal(operator, f"/api/backup/jobs/{failed['id']}/retry", {}) == (403, "backup.sources_not_allowed")


def test_an_operator_may_retry_a_backup_of_paths_below_the_sources(running: Running) -> None:
    source = running.new_source()
    repository = repository_of(running, source)
    operator = running.client_with_right(repository, "operator")
    failed = backed_up(operator, repository, source_paths=[f"{source}/missing"])
    (source / "missing").write_text("found")

    again = operator.post(f"/api/backup/jobs/{failed['id']}/retry").json()

    assert (failed["status"], failed["error_key"]) == ("failed", "engine.source_missing")
    assert operator.wait_for_end(again["job_id"])["status"] == "completed"


@engines
def test_a_backup_of_a_parent_folder_excludes_the_data_folder(running: Running, engine: int) -> None:
    """Like a backup of `/`, but of a smaller folder: the data folder's parent, which also contains test folders."""
    above = data_folder(running).parent
    repository = repository_of(running, above, engine=engine, exclude_patterns=[f"{above}/repository-*"])

    ended = backed_up(running.admin, repository)

    paths = archived(running, repository, ended)
    assert ended["status"].startswith("completed")
    assert str(above).lstrip("/") in paths
    assert own_files(paths) == []
    assert any(str(data_folder(running)) in line for line in running.admin.log_lines(ended["id"]))


def beside(folder: Path) -> str:
    """A pattern that excludes everything that is not on the path to a folder, so that a backup of the root is small.

    Other tests create files while this one runs: the exclusions must not depend on the files that existed before.
    """
    names = [re.escape("/".join(folder.parts[1 : count + 1])) for count in range(1, len(folder.parts))]
    kept = [r"\.?$", r"proc(/|$)", f"{names[-1]}(/|$)", *(f"{name}$" for name in names[:-1])]
    return f"re:^(?!/?({'|'.join(kept)}))"


def test_a_backup_of_the_whole_machine_excludes_the_data_folder_and_processes(running: Running) -> None:
    """For the service it is the whole machine; the engine skips what does not matter here."""
    above = data_folder(running).parent
    repository = repository_of(running, "/", exclude_patterns=[beside(above), f"{above}/repository-*"])

    ended = backed_up(running.admin, repository)

    paths = archived(running, repository, ended)
    assert str(above).lstrip("/") in paths
    assert own_files(paths) == []
    assert "proc" not in paths


@engines
def test_a_symbolic_link_in_the_path_does_not_bring_the_data_folder_into_a_backup(
    running: Running, engine: int
) -> None:
    link = running.new_path("link")
    link.symlink_to(data_folder(running).parent)
    inside = link / data_folder(running).name
    repository = repository_of(running, running.new_source(), engine=engine)

    ended = backed_up(running.admin, repository, source_paths=[*repository["source_paths"], str(inside), f"{link}/."])

    assert ended["status"] == "completed_with_warnings"
    assert str(inside) in [warning["path"] for warning in ended["warnings"]]
    assert own_files(archived(running, repository, ended)) == []


@engines
def test_a_bind_mount_does_not_bring_the_data_folder_into_a_backup(running: Running, engine: int) -> None:
    source = running.new_source()
    repository = repository_of(running, source, engine=engine)

    with bound(data_folder(running).parent, source / "mounted"):
        ended = backed_up(running.admin, repository)
        paths = archived(running, repository, ended)

    assert f"{source}/mounted".lstrip("/") in paths
    assert own_files(paths) == []


def test_a_hard_link_to_the_key_is_not_backed_up(running: Running) -> None:
    source = running.new_source()
    os.link(data_folder(running) / "secret.key", source / "harmless")
    repository = repository_of(running, source)

    ended = backed_up(running.admin, repository)

    paths = archived(running, repository, ended)
    (source / "harmless").unlink()
    assert not any(path.endswith("harmless") for path in paths)
    assert any(path.endswith("file-0") for path in paths)


def test_processes_are_not_backed_up(running: Running) -> None:
    """Their environment may hold the key, their open files the store."""
    repository = repository_of(running, running.new_source())
    assert running.process.process is not None
    environment = f"/proc/{running.process.process.pid}/environ"

    ended = backed_up(running.admin, repository, source_paths=[*repository["source_paths"], environment])

    assert [warning["path"] for warning in ended["warnings"]] == [environment]
    assert not any(path.startswith("proc") for path in archived(running, repository, ended))


def test_a_backup_of_only_the_services_own_folders_fails(running: Running) -> None:
    repository = repository_of(running, running.new_source())

    ended = backed_up(running.admin, repository, source_paths=[str(data_folder(running))])

    assert (ended["status"], ended["error_key"]) == ("failed", "backup.own_places")


def test_the_services_own_folders_become_sources_only_after_confirmation(
    running: Running, untouched: Untouched
) -> None:
    repository, _ = untouched
    path, sources = f"/api/repositories/{repository['id']}", [str(data_folder(running))]

    refused = running.admin.put(path, json={"source_paths": sources})

    assert (refused.status_code, refused.json()["detail"]["key"]) == (409, "repository.own_places_unconfirmed")
    assert refused.json()["detail"]["params"] == {"sources": sources}
    assert running.admin.get(path).json()["source_paths"] == repository["source_paths"]


def test_own_folders_confirmed_by_an_admin_are_backed_up(running: Running) -> None:
    source, data = running.new_source(), data_folder(running)
    repository = repository_of(running, source)
    path = f"/api/repositories/{repository['id']}"
    body = {"source_paths": [str(source), str(data)], "own_places_confirmed": True}
    changed = running.admin.put(path, json=body).json()

    ended = backed_up(running.admin, repository)

    assert changed["own_sources"] == [str(data)]
    assert f"{data}/secret.key".lstrip("/") in archived(running, repository, ended)
    audited = running.admin.get("/api/audit", params={"action": "repository.changed"}).json()
    assert str(data) in str(audited)


@pytest.mark.parametrize("route", ["", "import"])
def test_a_new_or_imported_repository_requires_the_same_confirmation(running: Running, route: str) -> None:
    body = {
        "name": running.new_name("own"),
        "path": str(running.new_path()),
        "encryption": "none",
        "source_paths": [str(data_folder(running))],
    }

    assert refusal(running.admin, f"/api/repositories/{route}", body) == (409, "repository.own_places_unconfirmed")
    assert not Path(body["path"]).exists()


def test_own_folders_can_only_be_confirmed_by_their_real_path(running: Running, untouched: Untouched) -> None:
    repository, _ = untouched
    link = running.new_path("link")
    link.symlink_to(data_folder(running))
    body = {"source_paths": [f"{link}/logs"], "own_places_confirmed": True}

    answer = running.admin.put(f"/api/repositories/{repository['id']}", json=body)

    assert (answer.status_code, answer.json()["detail"]["key"]) == (422, "repository.own_place_other_name")
