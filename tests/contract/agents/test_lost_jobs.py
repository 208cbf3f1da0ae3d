"""Jobs that their agent has lost, and cancelled jobs that the agent never confirms as stopped."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.contract.agents.agent import EVERYTHING, Agent, Machines
from tests.contract.agents.evidence import answer, listed, question_about
from tests.support.running import Services
from tests.support.service import wait_until

ONLY_BACKUPS = ["backup.create", "backup.cancel", "logs.stream"]
THRESHOLD_SECONDS = 2


@pytest.fixture(scope="module")
def impatient(services: Services) -> Iterator[Machines]:
    with services.own(HOLDFAST_AGENT_OFFLINE_SECONDS=str(THRESHOLD_SECONDS)) as running:
        yield Machines(running)


def beat_until(agent: Agent, condition: Any, what: str, **heartbeat: Any) -> Any:
    """Send heartbeats that name no job until the condition holds."""

    def held() -> Any:
        assert agent.heartbeat(**heartbeat).status_code == 200
        return condition()

    return wait_until(held, pause=0.2, what=what)


def begun(machines: Machines, capabilities: list[str] | None = None) -> tuple[Agent, int, str]:
    agent = machines.agent()
    repository = machines.repository(agent)
    if capabilities is not None:
        agent.heartbeat(capabilities=capabilities)
    job = machines.backup(repository)
    agent.begin(job)
    return agent, job, machines.job(job)["payload"]["backup"]["comment"]


def test_a_lost_backup_completes_when_an_evidence_job_finds_its_archive(
    impatient: Machines,
) -> None:
    agent, job, key = begun(impatient)
    question = beat_until(agent, lambda: question_about(agent, job), "the repository is asked")
    agent.begin(question)
    assert agent.post(question, "fail", {"error_message": "it is locked"}).json()["status"] == "failed"
    assert impatient.admin.operation(job)["status"] == "running", "that proves nothing"

    question = beat_until(agent, lambda: question_about(agent, job), "the repository is asked again")
    answer(agent, question, listed(key, "made", datetime.now(UTC)))

    ended = impatient.admin.operation(job)
    assert (ended["status"], ended["archive_name"], ended["attempt"]) == ("completed", "made", 1)


def test_a_lost_backup_without_an_archive_is_retried(impatient: Machines) -> None:
    agent, job, _ = begun(impatient)
    agent.log(job, (1, "of the first attempt"))

    question = beat_until(agent, lambda: question_about(agent, job), "the repository is asked")
    answer(agent, question, listed("another", "another", datetime(2020, 1, 1, tzinfo=UTC)))

    assert impatient.admin.operation(job)["status"] == "pending"
    agent.begin(job)
    agent.log(job, (1, "of the second attempt"))
    assert agent.complete(job, archive_name="second").json()["status"] == "completed"
    ended = impatient.admin.operation(job)
    assert (ended["status"], ended["attempt"]) == ("completed", 2)
    assert impatient.admin.log_lines(job) == ["of the first attempt", "of the second attempt"]


def test_a_lost_backup_of_an_agent_that_cannot_list_archives_is_retried_and_finally_fails(
    impatient: Machines,
) -> None:
    agent, job, _ = begun(impatient, ONLY_BACKUPS)

    for attempt in (1, 2):
        beat_until(
            agent,
            lambda: impatient.admin.operation(job)["status"] == "pending",
            f"attempt {attempt} is given up",
            capabilities=ONLY_BACKUPS,
        )
        agent.begin(job)

    def failed() -> bool:
        return bool(impatient.admin.operation(job)["status"] == "failed")

    beat_until(agent, failed, "the last attempt is given up", capabilities=ONLY_BACKUPS)
    ended = impatient.admin.operation(job)
    assert (ended["error_key"], ended["attempt"]) == ("operations.interrupted", 3)


def test_a_result_that_arrives_while_the_job_waits_for_a_retry_is_accepted(impatient: Machines) -> None:
    agent, job, _ = begun(impatient, ONLY_BACKUPS)
    beat_until(
        agent,
        lambda: impatient.admin.operation(job)["status"] == "pending",
        "the job counts as lost",
        capabilities=ONLY_BACKUPS,
    )

    assert agent.complete(job, archive_name="late").json()["status"] == "completed"
    assert impatient.admin.operation(job)["archive_name"] == "late"


def test_a_job_named_in_a_heartbeat_or_reported_on_is_not_lost(impatient: Machines) -> None:
    named_by, named, _ = begun(impatient)
    reported_by, reported, _ = begun(impatient)
    lost_by, lost, _ = begun(impatient)

    def question() -> int | None:
        named_by.heartbeat(running_job_ids=[named])
        reported_by.heartbeat()
        reported_by.post(reported, "progress", {"nfiles": 1})
        return question_about(lost_by, lost)

    beat_until(lost_by, question, "the third one is lost")

    assert [impatient.admin.operation(job)["status"] for job in (named, reported)] == ["running", "running"]
    assert question_about(named_by, named) is None
    assert question_about(reported_by, reported) is None


@pytest.mark.parametrize("is_online", [True, False])
def test_a_cancelled_job_ends_within_the_threshold_even_if_the_agent_never_confirms_it(
    impatient: Machines, is_online: bool
) -> None:
    agent, job, _ = begun(impatient)
    impatient.admin.post(f"/api/managed-machines/agent-jobs/{job}/cancel")

    def ended() -> bool:
        if is_online:
            agent.heartbeat(running_job_ids=[job])
        return bool(impatient.admin.operation(job)["status"] == "cancelled")

    wait_until(ended, what="the job is cancelled")
    assert impatient.admin.operation(job)["error_key"] == "agents.cancel_unconfirmed"
    assert job in agent.heartbeat(running_job_ids=[job]).json()["cancel_job_ids"], "the agent should still stop it"

    late = agent.complete(job, archive_name="made after all")
    assert (late.status_code, late.json()["status"]) == (200, "canceled")
    assert "reported later" in impatient.admin.log_lines(job)[-1]
    assert impatient.admin.operation(job)["status"] == "cancelled"


# --- archives named by a template -----------------------------------------------------------------------------------


def test_an_archive_reported_by_its_name_template_is_looked_up_in_the_repository(machines: Machines) -> None:
    agent = machines.agent()
    job = machines.backup(machines.repository(agent))
    agent.begin(job)
    template = machines.job(job)["payload"]["backup"]["archive_name"]
    assert "{now" in template
    agent.complete(job, archive_name=template, stats={"nfiles": 4})
    assert machines.admin.operation(job)["archive_name"] is None, "a template is not a name"

    question = question_about(agent, job)
    assert question is not None
    name = template.split("{")[0] + "2026-01-01T00:00:00.000000"
    answer(agent, question, listed("", "older", datetime(2020, 1, 1, tzinfo=UTC)), listed("", name, datetime.now(UTC)))

    ended = machines.admin.operation(job)
    assert (ended["archive_name"], ended["result"]["archive"]["name"]) == (name, name)
    assert ended["result"]["stats"] == {"nfiles": 4}


# --- agents that support only backups -------------------------------------------------------------------------------


def imported(machines: Machines, agent: Agent, **more: Any) -> dict[str, Any]:
    body = {
        "name": machines.running.new_name("imported"),
        "path": f"/far/{machines.running.new_name('imported')}",
        "execution_target": "agent",
        "agent_machine_id": agent.id,
        "passphrase": "a passphrase",
        "source_paths": ["/etc"],
        "index_mode": "full",
        **more,
    }
    answer = machines.admin.post("/api/repositories/import", json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_an_agent_limited_to_backups_can_back_up_to_an_imported_repository(machines: Machines) -> None:
    agent = machines.agent(capabilities=ONLY_BACKUPS)
    repository = imported(machines, agent)
    assert (repository["setup_state"], repository["setup_operation_id"]) == ("unverified", None)

    job = machines.backup(repository)
    (offered,) = agent.poll()
    assert offered["id"] == job
    agent.begin(job)
    agent.complete(job, archive_name="first", stats={"nfiles": 1})

    shown = machines.admin.get(f"/api/repositories/{repository['id']}").json()
    assert shown["setup_state"] == "ready", "the first backup is the proof that it opens"
    assert agent.poll(limit=10) == [], "nothing is queued that this agent cannot do"
    archives = machines.admin.get(f"/api/repositories/{repository['id']}/archives").json()
    assert (archives["sync_state"], archives["unavailable_reason"]) == ("never", "agent_unsupported")
    cells = machines.admin.get(f"/api/repositories/{repository['id']}/status").json()["cells"]
    status = {cell["cell"]: cell["status"] for cell in cells}
    assert (status["backup"], status["index"], status["check"]) == ("completed", "unavailable", "unavailable")
    resync = machines.admin.post(f"/api/repositories/{repository['id']}/resync")
    assert (resync.status_code, resync.json()["detail"]["key"]) == (422, "repository.agent_unable")


def test_a_new_repository_is_refused_for_an_agent_that_cannot_create_one(machines: Machines) -> None:
    agent = machines.agent(capabilities=ONLY_BACKUPS)
    body = {
        "name": machines.running.new_name("new"),
        "path": "/far/new",
        "execution_target": "agent",
        "agent_machine_id": agent.id,
        "encryption": "none",
    }

    refused = machines.admin.post("/api/repositories/", json=body)

    assert (refused.status_code, refused.json()["detail"]["key"]) == (422, "repository.agent_unable")


def test_an_agent_that_gains_capabilities_can_open_its_repository_later(machines: Machines) -> None:
    agent = machines.agent(capabilities=ONLY_BACKUPS)
    repository = imported(machines, agent)
    agent.heartbeat(capabilities=EVERYTHING)

    again = machines.admin.post(f"/api/repositories/{repository['id']}/setup")

    assert again.status_code == 200, again.text
    agent.finish_all(parts=0)
    assert machines.admin.get(f"/api/repositories/{repository['id']}").json()["setup_state"] == "ready"
