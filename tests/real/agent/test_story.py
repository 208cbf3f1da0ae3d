"""The whole story with real processes: a service, an agent, an engine."""

import json
from pathlib import Path

import pytest

from tests.support.agent_site import AgentSite
from tests.support.agents import PASSPHRASE
from tests.support.processes import command_line
from tests.support.scraped import wait_for_series
from tests.support.service import wait_until
from tests.support.trees import files_with


def test_a_registered_machine_is_online_and_reports_its_engines(site: AgentSite) -> None:
    agent = site.admin.get(f"/api/managed-machines/agents/{site.agent.agent_id}").json()

    assert agent["status"] == "online"
    assert agent["engine_versions"][0]["major"] == 1
    assert {"backup.create", "restore.extract", "backup.cancel", "logs.stream"} <= set(agent["capabilities"])
    told = site.admin.post(f"/api/managed-machines/agents/{site.agent.agent_id}/diagnose").json()
    assert {one["step"]: one["verdict"] for one in told["findings"]}["answer"] == "ok", told


def test_a_backup_shows_its_log_while_it_runs_and_ends_with_sizes_and_an_archive(site: AgentSite) -> None:
    job = site.backup("held")
    run = site.wait_for_said(job)
    wait_until(
        lambda: any(run in line for line in site.admin.log_lines(job)), pause=0.05, what="its lines are in the log"
    )

    assert site.admin.operation(job)["status"] == "running"
    with site.engine.let_go():
        ended = site.wait_for_end(job)

    assert ended["status"] == "completed"
    assert ended["result"]["return_code"] == 0
    assert ended["result"]["stats"]["nfiles"] == 20
    archives = site.admin.get(f"/api/repositories/{site.repository['id']}/archives").json()["archives"]
    assert ended["archive_name"] in [archive["name"] for archive in archives]
    site.check_log(job)
    measured = {"repository": site.repository["name"]}
    assert wait_for_series(site.admin, "holdfast_repository_storage_free_bytes", **measured) > 0


def test_a_cancelled_backup_ends_once_its_engine_is_gone(site: AgentSite) -> None:
    job = site.backup("held")
    site.wait_for_said(job)
    pid = site.agent.engine_pid(job)

    site.admin.post(f"/api/operations/{job}/cancel")
    ended = site.wait_for_end(job)

    assert ended["status"] == "cancelled"
    assert command_line(pid) == ""
    assert site.archives_with(site.key_of(job)) == 0
    site.check_log(job)


def test_a_backup_cancelled_after_its_archive_was_created_is_completed(site: AgentSite) -> None:
    job = site.backup("made")
    run = site.wait_for_said(job, 3)
    wait_until(lambda: run in site.engine.made(), pause=0.02, what="the archive is made")

    site.admin.post(f"/api/operations/{job}/cancel")
    ended = site.wait_for_end(job)

    assert ended["status"] == "completed"
    assert site.archives_with(site.key_of(job)) == 1


def test_a_failing_engine_is_reported_with_its_exit_code(site: AgentSite) -> None:
    path = Path(site.repository["path"])
    path.rename(path.with_suffix(".away"))
    try:
        ended = site.wait_for_end(site.backup("quick"))
    finally:
        path.with_suffix(".away").rename(path)

    assert (ended["status"], ended["error_key"]) == ("failed", "engine.repository_missing")
    assert ended["error_message"]
    job = site.admin.get(f"/api/managed-machines/agent-jobs/{ended['id']}").json()
    assert (job["status"], job["result"]["return_code"]) == ("failed", 13)


def test_a_secret_printed_by_the_engine_is_masked_in_the_log(site: AgentSite) -> None:
    sources = [str(site.folder / PASSPHRASE), str(site.engine.source("quick"))]
    job = site.admin.start_backup(site.repository, source_paths=sources)
    assert site.wait_for_end(job)["status"] == "completed_with_warnings"

    lines = site.admin.log_lines(job)
    assert [line for line in lines if PASSPHRASE in line] == []
    assert [line for line in lines if line.startswith("WARNING") and "***" in line]


def test_no_secret_is_left_on_the_machine_or_in_a_log(site: AgentSite) -> None:
    site.wait_for_end(site.backup("quick"))

    for folder in (site.agent.folder, site.folder / "data" / "logs"):
        assert any(folder.iterdir())
        assert files_with(folder, PASSPHRASE) == []


def test_an_existing_repository_is_imported_with_its_archives(site: AgentSite) -> None:
    path = site.folder / "older"
    site.agent.ask_engine(site.engine.engine, "init", "--encryption=repokey", str(path))
    site.agent.ask_engine(site.engine.engine, "create", f"{path}::old-1", str(site.engine.source("quick")))
    body = {
        "name": "older",
        "path": str(path),
        "passphrase": PASSPHRASE,
        "execution_target": "agent",
        "agent_machine_id": site.agent.agent_id,
        "source_paths": [str(site.engine.source("quick"))],
        "index_mode": "archives",
    }

    imported = site.admin.post("/api/repositories/import", json=body)
    assert imported.status_code == 201, imported.text
    assert site.wait_for_end(imported.json()["setup_operation_id"])["status"] == "completed"

    place = f"/api/repositories/{imported.json()['id']}/archives"
    names = wait_until(
        lambda: [archive["name"] for archive in site.admin.get(place).json()["archives"]], 60, 0.1, "the archives"
    )
    assert names == ["old-1"]


@pytest.mark.campaign
def test_heartbeats_continue_while_a_job_runs(site: AgentSite) -> None:
    job = site.backup("held")
    site.wait_for_said(job)
    seen = {last_heartbeat(site)}

    wait_until(lambda: seen.add(last_heartbeat(site)) or len(seen) >= 3, pause=0.2, what="further heartbeats")

    assert site.admin.operation(job)["status"] == "running"
    with site.engine.let_go():
        assert site.wait_for_end(job)["status"] == "completed"


def last_heartbeat(site: AgentSite) -> str:
    facts: dict[str, str] = json.loads(site.agent.run("status", "--json").stdout)
    return facts["last_heartbeat_at"]


@pytest.mark.campaign
def test_once_runs_a_single_job_and_reports_its_outcome_by_exit_code(site: AgentSite) -> None:
    site.agent.stop()
    try:
        good = site.backup("quick")
        assert site.agent.run("once").returncode == 0
        bad = site.admin.start_backup(site.repository, source_paths=[str(site.folder / "not there")])
        assert site.agent.run("once").returncode == 6
    finally:
        site.agent.start()

    assert site.admin.operation(good)["status"] == "completed"
    assert site.admin.operation(bad)["status"] == "failed"


def test_a_disabled_agent_logs_that_it_is_refused_and_waits(site: AgentSite) -> None:
    place = f"/api/managed-machines/agents/{site.agent.agent_id}"
    assert site.admin.post(f"{place}/disable").status_code == 200
    try:
        wait_until(
            lambda: "refuses this agent" in site.agent.own_log(), pause=0.1, what="the agent says that it is refused"
        )
        assert site.agent.is_running()
        assert site.agent.run("once").returncode == 75, "the lock is still held"
        site.agent.stop()
        assert site.agent.run("once").returncode == 5
    finally:
        assert site.admin.post(f"{place}/enable").status_code == 200
        site.agent.start()

    assert site.wait_for_end(site.backup("quick"))["status"] == "completed"


def test_a_passphrase_can_stay_on_the_machine(site: AgentSite) -> None:
    made = site.admin.create_repository(
        site.folder / "own-secret",
        [site.engine.source("quick")],
        execution_target="agent",
        agent_machine_id=site.agent.agent_id,
        passphrase=None,
        passphrase_location="agent",
    )
    failed = site.wait_for_end(made["setup_operation_id"])
    assert failed["error_key"] == "engine.passphrase_missing"
    reference = f"repository-{made['id']}"
    assert reference in failed["error_message"]

    kept = site.agent.run("secret", "set", reference, given="only the machine knows it\n")
    assert kept.returncode == 0, kept.stderr
    again = site.admin.post(f"/api/repositories/{made['id']}/setup")
    assert again.status_code in (200, 201, 202), again.text
    assert site.wait_for_end(again.json()["setup_operation_id"])["status"] == "completed"
    assert site.wait_for_end(site.admin.start_backup(made))["status"] == "completed"
