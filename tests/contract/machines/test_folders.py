"""Browsing, probing and estimating paths of machines: for administrators only, locally, by ssh and by agents."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.fields import error_of
from tests.support.agents import AgentProcess
from tests.support.engines import ENGINES
from tests.support.running import Running, Services
from tests.support.service import Client
from tests.support.sshd import Sshd
from tests.support.warm_engines import warm_program

BROWSE, PROBE = "/api/filesystem/browse", "/api/repositories/probe"
ESTIMATE = "/api/filesystem/estimate"


@pytest.fixture(scope="module")
def connection(services: Services, machine: Sshd) -> int:
    running = services.get()
    return machine.connection(running.admin, running.new_name("machine"))


@pytest.fixture(scope="module")
def agent(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    running = services.get()
    made = AgentProcess(tmp_path_factory.mktemp("agent"), warm_program(ENGINES[max(ENGINES)]), running.process.url)
    made.register(running.admin, running.new_name("agent")).start()
    made.wait_until_online(running.admin)
    yield made
    made.stop()


@pytest.fixture(params=["local", "ssh", "agent"])
def target(request: pytest.FixtureRequest, connection: int, agent: AgentProcess) -> dict[str, Any]:
    number = {"ssh": connection, "agent": agent.agent_id}.get(request.param)
    return {"target": request.param, **({} if number is None else {"machine_id": number})}


def browse(client: Client, target: dict[str, Any], path: Path | str, **more: Any) -> dict[str, Any]:
    answer = client.post(BROWSE, json={**target, "path": str(path), **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_folder_is_listed_page_by_page(running: Running, target: dict[str, Any]) -> None:
    folder = running.new_folder()
    (folder / "letters").mkdir()
    (folder / "notes.txt").write_text("four")

    first = browse(running.admin, target, folder, limit=1)
    second = browse(running.admin, target, folder, limit=1, cursor=first["next_cursor"])

    assert [entry["name"] for entry in first["entries"]] == ["letters"]
    assert (first["path"], first["entries"][0]["path"]) == (str(folder.resolve()), f"{folder.resolve()}/letters")
    assert first["entries"][0]["is_folder"] is True
    assert second["next_cursor"] is None
    assert second["entries"] == [
        {
            "name": "notes.txt",
            "path": f"{folder.resolve()}/notes.txt",
            "path_b64": None,
            "type": "-",
            "is_folder": False,
            "size": 4,
            "readable": True,
            "mount": False,
        }
    ]
    assert [entry["name"] for entry in browse(running.admin, target, folder, folders_only=True)["entries"]] == [
        "letters"
    ]


def test_a_probe_shows_which_repository_is_at_a_path_and_whether_it_can_be_used(
    running: Running, target: dict[str, Any], tmp_path: Path
) -> None:
    repository = running.known.repository
    number = "agent_machine_id" if target["target"] == "agent" else "ssh_connection_id"
    where = {"execution_target": target["target"], number: target.get("machine_id")}

    there = running.admin.post(PROBE, json={**where, "path": repository["path"]}).json()
    empty = running.admin.post(PROBE, json={**where, "path": str(tmp_path)}).json()
    new = running.admin.post(PROBE, json={**where, "path": str(tmp_path / "new")}).json()

    assert there["repository"] == {
        "engine_version": 1,
        "engine_id": repository["engine_id"],
        "encryption": "repokey",
        "repository_id": repository["id"],
    }
    assert (there["exists"], there["empty"], there["readable"]) == (True, False, True)
    assert (empty["empty"], empty["writable"], empty["repository"]) == (True, True, None)
    assert (new["exists"], new["writable"]) == (False, True)
    assert new["free_bytes"] > 0


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"path": "relative"}, (422, "filesystem.bad_path")),
        ({"path": "/a", "path_b64": "L2E="}, (422, "filesystem.bad_path")),
        ({"path_b64": "%%%"}, (422, "filesystem.bad_path")),
        ({"path_b64": "L2EAYg=="}, (422, "filesystem.bad_path")),
        ({"path": "/no/such/folder/here"}, (422, "filesystem.unreadable")),
        ({"path": "/etc/hostname"}, (422, "filesystem.unreadable")),
        ({"path": "/", "cursor": "nonsense"}, (422, "paging.bad_cursor")),
        ({"path": "/", "target": "ssh"}, (422, "filesystem.machine_unclear")),
        ({"path": "/", "machine_id": 1}, (422, "filesystem.machine_unclear")),
        ({"path": "/", "target": "ssh", "machine_id": 999_999}, (422, "repository.unknown_connection")),
        ({"path": "/", "limit": 1001}, None),
        ({"path": "/", "target": "agent"}, (422, "filesystem.machine_unclear")),
        ({"path": "/", "target": "agent", "machine_id": 999_999}, (404, "agents.not_found")),
        ({"path": "/", "target": "elsewhere"}, None),
    ],
)
def test_a_path_that_is_not_a_folder_or_a_malformed_request_is_refused(
    running: Running, body: dict[str, Any], error: tuple[int, str] | None
) -> None:
    answer = running.admin.post(BROWSE, json=body)

    assert (answer.status_code if error is None else error_of(answer)) == (error or 422)


def test_an_operator_of_every_repository_may_not_browse_probe_or_estimate(running: Running) -> None:
    operator = running.client_of(running.new_user("operator", all_repositories_role="operator"))

    for route in (BROWSE, PROBE, ESTIMATE):
        for path in ("/", "/no/such/folder"):
            body = {"paths": [path]} if route == ESTIMATE else {"path": path}
            assert error_of(operator.post(route, json=body)) == (403, "access.forbidden")


def test_a_missing_folder_is_reported_on_any_machine(running: Running, target: dict[str, Any]) -> None:
    answer = running.admin.post(BROWSE, json={**target, "path": "/no/such/folder"})
    sizes = running.admin.post(ESTIMATE, json={**target, "paths": ["/", "/no/such/folder"]})

    assert error_of(answer) == error_of(sizes) == (422, "filesystem.unreadable")


def test_an_estimate_counts_every_file_once_and_does_not_follow_links(running: Running, target: dict[str, Any]) -> None:
    folder = running.new_folder()
    (folder / "below").mkdir()
    (folder / "below" / "large").write_bytes(bytes(5000))
    os.link(folder / "below" / "large", folder / "the same")
    (folder / "everything").symlink_to("/")
    single = running.new_folder() / "single"
    single.write_bytes(bytes(70))

    answer = running.admin.post(ESTIMATE, json={**target, "paths": [str(folder), str(single)]})

    assert answer.status_code == 200, answer.text
    assert answer.json() == {"files": 4, "folders": 2, "bytes": 5070, "unreadable": 0, "complete": True}


@pytest.mark.parametrize("paths", [[], ["relative"], ["/"] * 101])
def test_an_estimate_without_paths_or_with_invalid_or_too_many_is_refused(running: Running, paths: list[str]) -> None:
    assert running.admin.post(ESTIMATE, json={"paths": paths}).status_code == 422


def test_an_offline_or_revoked_agent_is_refused_without_waiting(running: Running, tmp_path: Path) -> None:
    away = AgentProcess(tmp_path, warm_program(ENGINES[max(ENGINES)]), running.process.url)
    away.register(running.admin, running.new_name("away"))
    body = {"target": "agent", "machine_id": away.agent_id, "path": "/"}

    assert error_of(running.admin.post(BROWSE, json=body)) == (503, "agents.offline")
    assert running.admin.post(f"/api/managed-machines/agents/{away.agent_id}/revoke").status_code == 200
    assert running.admin.post(BROWSE, json=body).status_code == 409


def test_a_preview_of_a_restore_to_an_agent_shows_free_space_but_no_conflicts(
    running: Running, agent: AgentProcess, tmp_path: Path
) -> None:
    body = {
        "repository_id": running.known.repository["id"],
        "archive": running.admin.operation(running.known.job_id)["archive_name"],
        "destination": str(tmp_path / "new"),
        "destination_type": "agent",
        "destination_machine_id": agent.agent_id,
    }
    preview = running.admin.post("/api/restore/preview", json=body).json()

    assert preview["files"] > 0
    assert (preview["conflicts_known"], preview["would_write"], preview["conflicts"]) == (False, None, [])
    assert preview["free_bytes"] > 0
