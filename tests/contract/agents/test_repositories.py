"""Repositories of agents, and the operations on them."""

from typing import Any

import pytest

from tests.contract.agents.agent import PASSPHRASE, Agent, Machines
from tests.contract.fields import error_of


@pytest.fixture(scope="module")
def ready(on_sqlite: Machines) -> tuple[Agent, dict[str, Any]]:
    """An agent and its repository, shared by tests that leave no job unfinished."""
    agent = on_sqlite.agent()
    return agent, on_sqlite.repository(agent)


def repository(machines: Machines, number: int) -> dict[str, Any]:
    found: dict[str, Any] = machines.admin.get(f"/api/repositories/{number}").json()
    return found


# --- setup ----------------------------------------------------------------------------------------------------------


def test_a_repository_of_an_agent_is_pending_until_the_agent_has_created_it(machines: Machines) -> None:
    agent = machines.agent()
    created = machines.repository(agent, ready=False)
    assert (created["setup_state"], created["execution_target"]) == ("pending", "agent")
    assert created["agent_machine_id"] == agent.id
    setup = created["setup_operation_id"]
    assert machines.admin.operation(setup)["kind"] == "init"
    backup = machines.backup(created)
    assert machines.admin.operation(backup)["queued_reason"] == "dependency"

    (offered,) = agent.poll(limit=10)
    assert (offered["id"], offered["payload"]["job_kind"]) == (setup, "repository.init")
    assert offered["payload"]["init"]["encryption"] == "repokey-blake2"
    agent.begin(setup)
    info = {
        "repository": {"id": "c" * 64, "location": created["path"], "last_modified": "2026-01-01T00:00:00.000000"},
        "encryption": {"mode": "repokey-blake2"},
    }
    agent.complete(setup, details={"info": info})

    assert repository(machines, created["id"])["setup_state"] == "ready"
    assert [job["id"] for job in agent.poll(limit=10)] == [backup]


def test_a_failed_setup_can_be_retried(machines: Machines) -> None:
    agent = machines.agent()
    created = machines.repository(agent, ready=False)
    waiting = machines.backup(created)
    setup = created["setup_operation_id"]
    path = f"/api/repositories/{created['id']}/setup"
    assert machines.admin.post(path).status_code == 409
    agent.begin(setup)
    agent.fail(setup, "no space", error_key="engine.disk_full")

    assert repository(machines, created["id"])["setup_state"] == "failed"
    assert machines.admin.operation(waiting)["status"] == "skipped"
    start = machines.admin.post("/api/backup/start", json={"repository": created["path"]})
    assert (start.status_code, start.json()["detail"]["key"]) == (409, "repository.not_set_up")

    again = machines.admin.post(path).json()
    assert (again["setup_state"], again["setup_operation_id"] > setup) == ("pending", True)
    agent.finish_all()
    assert repository(machines, created["id"])["setup_state"] == "ready"


def test_an_imported_repository_is_opened_by_the_agent_which_then_lists_its_archives(machines: Machines) -> None:
    agent = machines.agent()
    body = {
        "name": machines.running.new_name("imported"),
        "path": "/far/imported",
        "execution_target": "agent",
        "agent_machine_id": agent.id,
        "passphrase": PASSPHRASE,
    }
    answer = machines.admin.post("/api/repositories/import", json=body)
    assert answer.status_code == 201, answer.text
    created = answer.json()
    assert (created["setup_state"], created["encryption"], created["index_mode"]) == ("pending", "unknown", "full")
    assert machines.admin.operation(created["setup_operation_id"])["kind"] == "import"
    (offered,) = agent.poll()
    assert "encryption" not in offered["payload"]["repository"]
    assert offered["payload"]["repository"]["relocated_ok"] is True

    agent.begin(created["setup_operation_id"])
    info = {"repository": {"id": "d" * 64, "location": "/far"}, "encryption": {"mode": "keyfile-blake2"}}
    agent.complete(created["setup_operation_id"], details={"info": info})

    opened = repository(machines, created["id"])
    assert (opened["setup_state"], opened["encryption"], opened["has_keyfile"]) == ("ready", "keyfile-blake2", True)
    (listing,) = agent.poll(limit=10)
    assert (listing["type"], listing["payload"]["job_kind"]) == ("archives", "archives.list")


@pytest.mark.parametrize(
    ("more", "code", "key"),
    [
        ({"agent_machine_id": None}, 422, "repository.agent_missing"),
        ({"agent_machine_id": 10**9}, 422, "repository.unknown_agent"),
        ({"path": "relative"}, 422, "repository.path_not_absolute"),
        ({"repository_type": "ssh", "path": "/not/an/address"}, 422, "repository.bad_address"),
        ({"passphrase_location": "agent"}, 422, "repository.passphrase_on_agent"),
        ({"source_paths": ["relative"]}, 422, "repository.source_not_absolute"),
    ],
)
def test_a_repository_that_an_agent_could_not_open_is_refused(
    machines: Machines, ready: tuple[Agent, dict[str, Any]], more: dict[str, Any], code: int, key: str
) -> None:
    body = {
        "name": machines.running.new_name("refused"),
        "path": "/far/refused",
        "execution_target": "agent",
        "agent_machine_id": ready[0].id,
        "passphrase": PASSPHRASE,
        **more,
    }
    answer = machines.admin.post("/api/repositories/", json=body)
    assert (answer.status_code, answer.json()["detail"]["key"]) == (code, key)


def test_two_agents_may_have_repositories_with_the_same_path(machines: Machines) -> None:
    first, second = machines.agent(), machines.agent()
    path = f"/far/{machines.running.new_name('same')}"
    mine = machines.repository(first, path=path)
    other = machines.repository(second, path=path)

    assert mine["id"] != other["id"]
    by_path = machines.admin.post("/api/backup/start", json={"repository": path})
    assert (by_path.status_code, by_path.json()["detail"]["key"]) == (409, "repository.path_ambiguous")
    body = {"name": machines.running.new_name("again"), "path": path, "execution_target": "agent"}
    again = machines.admin.post(
        "/api/repositories/", json={**body, "agent_machine_id": first.id, "passphrase": PASSPHRASE}
    )
    assert again.status_code == 409
    machines.backup(other)
    assert (first.poll(), len(second.poll())) == ([], 1)


def test_a_repository_can_be_assigned_to_another_agent_when_nothing_is_queued(machines: Machines) -> None:
    old, new = machines.agent(), machines.agent()
    created = machines.repository(old)
    job = machines.backup(created)
    path = f"/api/repositories/{created['id']}"

    assert machines.admin.put(path, json={"agent_machine_id": new.id}).status_code == 409
    machines.admin.post(f"/api/operations/{job}/cancel")
    assert machines.admin.put(path, json={"agent_machine_id": new.id}).json()["agent_machine_id"] == new.id
    created["agent_machine_id"] = new.id
    job = machines.backup(created)
    assert (old.poll(), [offered["id"] for offered in new.poll()]) == ([], [job])


def test_a_moved_repository_is_opened_by_its_agent_at_its_new_location(machines: Machines) -> None:
    agent = machines.agent()
    known = machines.repository(agent)
    path = f"/api/repositories/{known['id']}/confirm-relocation"

    job = machines.admin.post(path).json()["operation_id"]

    assert machines.admin.post(path).status_code == 409
    (offered,) = agent.poll()
    assert (offered["id"], offered["payload"]["repository"]["relocated_ok"]) == (job, True)
    agent.begin(job)
    agent.complete(job)
    assert repository(machines, known["id"])["setup_state"] == "ready"


# --- maintenance ----------------------------------------------------------------------------------------------------


def started(machines: Machines, path: str, body: dict[str, Any] | None = None) -> int:
    answer = machines.admin.post(path, json=body or {})
    assert answer.status_code == 200, answer.text
    job: int = answer.json()["job_id"]
    return job


def test_a_check_is_executed_by_the_agent(machines: Machines, ready: tuple[Agent, dict[str, Any]]) -> None:
    agent, known = ready
    job = started(machines, f"/api/repositories/{known['id']}/check", {"verify_data": True})

    (offered,) = agent.poll()
    assert offered["payload"]["check"]["verify_data"] is True
    agent.begin(job)
    agent.complete(job, details={"problems": [], "problem_count": 0, "verdicts": ["no problems found"]})

    shown = machines.admin.get(f"/api/repositories/check-jobs/{job}").json()
    assert (shown["status"], shown["result"]["verdicts"]) == ("completed", ["no problems found"])
    assert repository(machines, known["id"])["last_check"] is not None


def test_a_check_that_finds_damage_does_not_count_as_the_last_check(machines: Machines) -> None:
    agent = machines.agent()
    known = machines.repository(agent)
    job = started(machines, f"/api/repositories/{known['id']}/check")
    agent.begin(job)
    damage = {"problems": ["a segment is torn"], "problem_count": 1}
    agent.fail(job, "damage was found", error_key="engine.damaged", result={"details": damage})

    shown = machines.admin.get(f"/api/repositories/check-jobs/{job}").json()
    assert (shown["error_key"], shown["result"]["problems"]) == ("engine.damaged", ["a segment is torn"])
    assert repository(machines, known["id"])["last_check"] is None


def test_a_prune_and_a_deletion_remove_archives_from_the_list(machines: Machines) -> None:
    agent = machines.agent()
    known = machines.repository(agent)
    names = ("one", "two", "three")
    items = [
        {"id": f"{number:064x}", "name": name, "start": f"2026-01-0{number + 1}T00:00:00.000000"}
        for number, name in enumerate(names)
    ]
    (listing,) = machines.admin.post(f"/api/repositories/{known['id']}/resync").json()["operations"]
    agent.begin(listing)
    agent.post(listing, "parts", {"part": 0, "items": items})
    agent.complete(listing, parts=1)

    prune = started(machines, f"/api/repositories/{known['id']}/prune", {"keep_last": 2})
    (offered,) = agent.poll()
    assert offered["payload"]["prune"]["policy"] == {"keep_last": 2}
    agent.begin(prune)
    gone = {"archive": "one", "id": items[0]["id"], "time": "2026-01-01T00:00:00+00:00"}
    agent.complete(prune, details={"keep": [{"archive": "two", "rule": "last"}], "prune": [gone]})
    result = machines.admin.get(f"/api/repositories/prune-jobs/{prune}").json()["result"]
    assert (result["pruned_count"], result["kept_count"], result["prune"][0]["archive"]) == (1, 1, "one")

    listed = machines.admin.get(f"/api/repositories/{known['id']}/archives").json()["archives"]
    assert {archive["name"] for archive in listed} == {"two", "three"}
    two = next(archive["id"] for archive in listed if archive["name"] == "two")
    delete = machines.admin.delete(f"/api/archives/{two}").json()["job_id"]
    (offered,) = agent.poll()
    assert offered["payload"]["delete"]["archive_id"] == items[1]["id"]
    agent.begin(delete)
    agent.complete(delete)
    listed = machines.admin.get(f"/api/repositories/{known['id']}/archives").json()["archives"]
    assert {archive["name"] for archive in listed} == {"three"}


def test_a_prune_lists_protected_archives_and_is_skipped_if_the_agent_cannot_keep_them(machines: Machines) -> None:
    kinds = ["archives.list", "repository.init", "repository.prune", "archives.protected"]
    agent = machines.agent(capabilities=kinds)
    known = machines.repository(agent)
    url = f"/api/repositories/{known['id']}"
    item = {"id": f"{1:064x}", "name": "one", "start": "2026-01-01T00:00:00.000000"}
    (listing,) = machines.admin.post(f"{url}/resync").json()["operations"]
    agent.begin(listing)
    agent.post(listing, "parts", {"part": 0, "items": [item]})
    agent.complete(listing, parts=1)
    (archive,) = machines.admin.get(f"{url}/archives").json()["archives"]
    place = f"{url}/archives/{archive['id']}"
    assert machines.admin.put(place, json={"protected": True}).status_code == 200

    prune = started(machines, f"{url}/prune", {"keep_last": 1})
    (offered,) = agent.poll()
    assert offered["payload"]["prune"]["protected"] == [item["id"]]
    while_it_waits = machines.admin.put(place, json={"protected": False})
    assert error_of(while_it_waits) == (409, "archives.being_removed")
    agent.begin(prune)
    assert error_of(machines.admin.put(place, json={"protected": False})) == (409, "archives.being_removed")
    agent.complete(prune, details={"keep": [], "prune": []})

    agent.heartbeat(capabilities=kinds[:-1])
    skipped = started(machines, f"{url}/prune", {"keep_last": 1})
    assert agent.poll() == []
    ended = machines.admin.wait_for_end(skipped)
    assert (ended["status"], ended["skip_reason"]) == ("skipped", "agent_unsupported")
    assert machines.admin.put(place, json={"protected": False}).status_code == 200
    assert error_of(machines.admin.put(place, json={"protected": True})) == (409, "archives.protection_unsupported")


def test_compaction_and_break_lock_are_executed_by_the_agent(
    machines: Machines, ready: tuple[Agent, dict[str, Any]]
) -> None:
    agent, known = ready
    compact = started(machines, f"/api/repositories/{known['id']}/compact", {"threshold": 20})
    assert agent.poll()[0]["payload"]["compact"]["threshold"] == 20
    agent.begin(compact)
    agent.complete(compact, details={"freed_bytes": 123})
    assert machines.admin.get(f"/api/repositories/compact-jobs/{compact}").json()["result"]["freed_bytes"] == 123

    answer = machines.admin.post(f"/api/repositories/{known['id']}/break-lock").json()
    assert agent.poll()[0]["payload"]["job_kind"] == "repository.break_lock"
    agent.begin(answer["operation_id"])
    busy = machines.admin.post(f"/api/repositories/{known['id']}/break-lock")
    assert (busy.status_code, busy.json()["detail"]["key"]) == (409, "repository.operation_running")
    agent.complete(answer["operation_id"])


def test_a_restore_is_executed_on_the_machine_of_the_agent(
    machines: Machines, ready: tuple[Agent, dict[str, Any]]
) -> None:
    agent, known = ready
    wanted = {
        "repository_id": known["id"],
        "archive": "an-archive",
        "paths": ["etc/hosts"],
        "destination": "/far/restored",
        "destination_type": "agent",
    }
    here = {"destination_type": "local", "destination_machine_id": agent.id}
    local = machines.admin.post("/api/restore/start", json={**wanted, **here})
    assert (local.status_code, local.json()["detail"]["key"]) == (422, "restore.unsupported_target")
    escape = machines.admin.post("/api/restore/start", json={**wanted, "destination": "/far/../etc"})
    assert escape.status_code == 422

    job = started(machines, "/api/restore/start", {**wanted, "destination_machine_id": agent.id})
    (offered,) = agent.poll()
    restore = offered["payload"]["restore"]
    assert (restore["archive"], restore["paths"], restore["destination"]) == (
        "an-archive",
        ["etc/hosts"],
        "/far/restored",
    )
    assert (restore["restore_layout"], restore["overwrite"]) == ("preserve_path", "skip")
    agent.begin(job)
    agent.complete(job, details={"files_restored": 1, "bytes_restored": 9, "invented": 5})

    status = machines.admin.get(f"/api/restore/status/{job}").json()
    assert (status["status"], status["result"]["files_restored"]) == ("completed", 1)
    assert "invented" not in status["result"]


def test_a_new_passphrase_reaches_the_agent_with_its_next_job(machines: Machines) -> None:
    agent = machines.agent()
    known = machines.repository(agent)
    assert machines.admin.put(f"/api/repositories/{known['id']}", json={"passphrase": "another one"}).status_code == 200
    machines.backup(known)

    (offered,) = agent.poll()

    assert list(offered["payload"]["secrets"].values()) == [{"value": "another one"}]


def test_a_backup_is_followed_by_an_archive_list_if_the_index_mode_requires_it(machines: Machines) -> None:
    agent = machines.agent()
    known = machines.repository(agent, index_mode="archives")
    job = machines.backup(known)
    agent.begin(job)
    agent.complete(job, archive_name="a")

    (listing,) = agent.poll(limit=10)
    assert listing["payload"]["job_kind"] == "archives.list"
    assert machines.admin.operation(listing["id"])["parent_id"] == job
