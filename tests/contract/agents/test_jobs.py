"""The states of a job, and the requests that each of them accepts."""

import json
import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from tests.contract.agents.agent import LONG_AGO, Agent, Machines
from tests.support.service import PATIENCE, wait_until


def test_a_claim_is_idempotent_and_returns_the_same_job(machines: Machines) -> None:
    agent = machines.agent()
    job = machines.backup(machines.repository(agent))

    first, second = agent.claim(job).json(), agent.claim(job).json()
    agent.start(job)
    third = agent.claim(job).json()

    assert first["status"] == second["status"] == third["status"] == "claimed"
    assert first["job"]["payload"] == second["job"]["payload"] == third["job"]["payload"]


def test_the_payload_does_not_change_once_it_was_offered(machines: Machines) -> None:
    agent = machines.agent()
    repository = machines.repository(agent)
    job = machines.backup(repository)
    (offered,) = agent.poll()

    machines.admin.put(f"/api/repositories/{repository['id']}", json={"source_paths": ["/other"]})

    assert agent.claim(job).json()["job"]["payload"] == offered["payload"]


def test_a_queued_job_accepts_no_uploads(machines: Machines) -> None:
    agent = machines.agent()
    job = machines.backup(machines.repository(agent))

    answers = [
        agent.start(job),
        agent.post(job, "progress", {"progress_percent": 1}),
        agent.log(job, (1, "early")),
        agent.complete(job),
        agent.fail(job),
        agent.canceled(job),
    ]

    assert {(answer.status_code, answer.json()["detail"]["key"]) for answer in answers} == {(409, "agents.not_claimed")}
    assert agent.job(job).json()["status"] == "queued"


def test_a_job_may_end_without_having_been_started(machines: Machines) -> None:
    agent = machines.agent()
    job = machines.backup(machines.repository(agent))
    agent.claim(job)

    assert agent.complete(job).json()["status"] == "completed"


@pytest.mark.parametrize("ending", ["complete", "fail"])
def test_reports_on_an_ended_job_return_its_outcome_and_change_nothing(machines: Machines, ending: str) -> None:
    with machines.running_backup() as (agent, job):
        first = agent.complete(job, archive_name="one") if ending == "complete" else agent.fail(job, "first")
        before = machines.admin.operation(job)

        again = [
            agent.complete(job, archive_name="two", return_code=1),
            agent.fail(job, "second"),
            agent.canceled(job),
            agent.start(job),
            agent.post(job, "progress", {"progress_percent": 3}),
        ]

        assert {answer.status_code for answer in again} == {200}
        assert {answer.json()["status"] for answer in again} == {first.json()["status"]}
        assert machines.admin.operation(job) == before
        assert agent.claim(job).status_code == 409


def test_log_lines_that_arrive_after_the_end_are_still_stored(machines: Machines) -> None:
    with machines.running_backup() as (agent, job):
        agent.log(job, (1, "one"))
        agent.complete(job)

        assert agent.log(job, (1, "one"), (2, "two")).json() == {"accepted": 1, "duplicate": 1}
        assert machines.admin.log_lines(job) == ["one", "two"]


# --- logs -----------------------------------------------------------------------------------------------------------


def test_replayed_and_overlapping_log_lines_are_stored_once(machines: Machines) -> None:
    with machines.running_backup() as (agent, job):
        one = {"sequence": 1, "stream": "stderr", "message": "1", "created_at": LONG_AGO}
        assert agent.post(job, "logs", one).json() == {"accepted": 1, "duplicate": 0}
        assert agent.post(job, "logs", one).json() == {"accepted": 0, "duplicate": 1}
        assert agent.log(job, (3, "3"), (2, "2")).json() == {"accepted": 2, "duplicate": 0}
        assert agent.log(job, (1, "1"), (2, "2"), (3, "3"), (4, "4"), (4, "4")).json() == {
            "accepted": 1,
            "duplicate": 4,
        }
        assert agent.log(job, (6, "6")).json() == {"accepted": 1, "duplicate": 0}
        assert agent.job(job).json()["next_sequence"] == 5
        assert agent.log(job, (5, "5")).json() == {"accepted": 1, "duplicate": 0}

        assert agent.job(job).json()["next_sequence"] == 7
        assert machines.admin.log_lines(job) == ["1", "2", "3", "4", "6", "5"]
        shown = machines.admin.get(f"/api/managed-machines/agent-jobs/{job}/logs", params={"offset": 4}).json()
        assert [line["content"] for line in shown["lines"]] == ["6", "5"]


def test_a_multi_line_message_becomes_several_log_lines(machines: Machines) -> None:
    with machines.running_backup() as (agent, job):
        agent.log(job, (1, "a\nb\n"), (2, "c"))
        agent.log(job, (2, "c"), (3, "d\0"))

        assert machines.admin.log_lines(job) == ["a", "b", "c", "d\N{REPLACEMENT CHARACTER}"]


# --- cancellation ---------------------------------------------------------------------------------------------------


def cancel(machines: Machines, job: int) -> dict[str, Any]:
    answer = machines.admin.post(f"/api/managed-machines/agent-jobs/{job}/cancel")
    assert answer.status_code == 200, answer.text
    cancelled: dict[str, Any] = answer.json()
    return cancelled


def test_an_unclaimed_job_is_canceled_immediately(machines: Machines) -> None:
    agent = machines.agent()
    job = machines.backup(machines.repository(agent))

    assert cancel(machines, job)["status"] == "cancelled"
    assert machines.job(job)["status"] == "canceled"
    assert agent.poll() == []
    assert agent.claim(job).status_code == 409
    assert agent.job(job).json()["status"] == "canceled"


def test_a_running_job_is_canceled_once_its_agent_has_stopped_it(machines: Machines) -> None:
    with machines.running_backup() as (agent, job):
        asked = machines.admin.post(f"/api/backup/cancel/{job}").json()
        assert (asked["status"], asked["cancel_requested"]) == ("running", True)

        assert machines.job(job)["status"] == "cancel_requested"
        assert agent.heartbeat(running_job_ids=[job]).json()["cancel_job_ids"] == [job]
        assert agent.job(job).json()["status"] == "cancel_requested"
        assert agent.post(job, "progress", {"progress_percent": 50}).json()["status"] == "cancel_requested"
        assert agent.canceled(job).json()["status"] == "canceled"
        assert machines.admin.operation(job)["status"] == "cancelled"
        assert agent.heartbeat().json()["cancel_job_ids"] == []


@pytest.mark.parametrize(("ending", "status"), [("complete", "completed"), ("fail", "failed")])
def test_a_result_that_arrives_after_a_cancel_request_is_stored_as_the_outcome(
    machines: Machines, ending: str, status: str
) -> None:
    with machines.running_backup() as (agent, job):
        cancel_in_background(machines, job)
        answer = agent.complete(job) if ending == "complete" else agent.fail(job)

        assert answer.json()["status"] == status
        assert machines.admin.operation(job)["status"] == status


def cancel_in_background(machines: Machines, job: int) -> None:
    """Request a cancel without waiting for the response, which is sent only when the job has ended."""
    with machines.running.process.client() as client:
        client.headers.update(machines.admin.headers)
        client.timeout = 0.3
        with pytest.raises(httpx2.TimeoutException):
            client.post(f"/api/operations/{job}/cancel")
    wait_until(lambda: machines.job(job)["status"] == "cancel_requested", what="the request is stored")


def test_a_stop_that_was_not_requested_cannot_be_reported(machines: Machines) -> None:
    with machines.running_backup() as (agent, job):
        assert agent.canceled(job).status_code == 409
        assert machines.job(job)["status"] == "running"


def test_a_heartbeat_that_names_an_ended_or_unknown_job_cancels_nothing(machines: Machines) -> None:
    with machines.running_backup() as (agent, job):
        agent.complete(job)

        assert agent.heartbeat(running_job_ids=[job]).json()["cancel_job_ids"] == []
        assert agent.heartbeat(running_job_ids=[job + 1_000_000]).json()["cancel_job_ids"] == []


def test_operators_of_the_repository_may_cancel_a_job_but_viewers_may_not(machines: Machines) -> None:
    agent = machines.agent()
    repository = machines.repository(agent)
    job = machines.backup(repository)
    path = f"/api/managed-machines/agent-jobs/{job}/cancel"

    viewer = machines.running.client_with_right(repository, "viewer")
    operator = machines.running.client_with_right(repository, "operator")

    assert machines.running.stranger.post(path).status_code == 404
    assert viewer.post(path).status_code == 403
    assert operator.post(path).json()["status"] == "cancelled"


# --- the queue ------------------------------------------------------------------------------------------------------


def test_a_second_job_of_a_repository_waits_for_the_first(machines: Machines) -> None:
    agent = machines.agent()
    repository = machines.repository(agent)
    first, second = machines.backup(repository), machines.backup(repository)

    assert [job["id"] for job in agent.poll(limit=10)] == [first]
    agent.begin(first)
    assert agent.poll(limit=10) == []
    refused = agent.claim(second)
    assert (refused.status_code, refused.json()["detail"]["params"]["behind_id"]) == (409, first)
    waiting = machines.admin.operation(second)
    assert (waiting["queued_reason"], waiting["queued_behind_id"]) == ("repository_busy", first)
    agent.complete(first)
    assert [job["id"] for job in agent.poll(limit=10)] == [second]


def test_a_poll_returns_no_more_jobs_than_its_limit(machines: Machines) -> None:
    agent = machines.agent()
    for _ in range(11):
        machines.backup(machines.repository(agent))

    assert [len(agent.poll(**query)) for query in ({}, {"limit": 2}, {"limit": 500}, {"limit": 0})] == [1, 2, 10, 1]


def test_a_job_that_its_agent_does_not_support_is_not_offered_and_shows_why_it_waits(machines: Machines) -> None:
    agent = machines.agent()
    repository = machines.repository(agent)
    agent.heartbeat(capabilities=["repository.check"])
    job = machines.backup(repository)

    assert agent.poll() == []
    assert agent.claim(job).status_code == 409
    assert machines.admin.operation(job)["queued_reason"] == "agent_unsupported"
    agent.heartbeat(capabilities=["backup.create"])
    assert [offered["id"] for offered in agent.poll()] == [job]


def test_a_long_poll_returns_a_job_that_is_queued_while_it_waits(machines: Machines) -> None:
    agent = machines.agent()
    repository = machines.repository(agent)
    found: list[list[dict[str, Any]]] = []
    sent = threading.Event()
    agent.client.event_hooks = {"request": [lambda _: sent.set()]}
    waiter = _in_thread(lambda: found.append(agent.poll(wait=25)))
    assert sent.wait(PATIENCE)

    job = machines.backup(repository)
    waiter.join(PATIENCE)

    assert [[offered["id"] for offered in jobs] for jobs in found] == [[job]]


def _in_thread(action: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=action)
    thread.start()
    return thread


def test_a_long_archive_list_is_uploaded_in_parts(machines: Machines) -> None:
    agent = machines.agent()
    repository = machines.repository(agent)
    answer = machines.admin.post(f"/api/repositories/{repository['id']}/resync").json()
    (job,) = answer["operations"]
    agent.begin(job)
    items = [archive(number) for number in range(5)]

    assert agent.complete(job, parts=2).status_code == 409
    for _ in range(2):
        assert agent.post(job, "parts", {"part": 0, "items": items[:3]}).status_code == 200
    assert agent.complete(job, parts=2).status_code == 409
    agent.post(job, "parts", {"part": 1, "items": items[3:]})
    assert agent.complete(job, parts=2).json()["status"] == "completed"

    listed = machines.admin.get(f"/api/repositories/{repository['id']}/archives").json()
    assert [found["name"] for found in listed["archives"]] == [f"archive-{number}" for number in reversed(range(5))]
    assert (listed["sync_state"], listed["history_available"]) == ("fresh", False)


def archive(number: int) -> dict[str, Any]:
    return {
        "id": f"{number:064x}",
        "name": f"archive-{number}",
        "start": f"2026-01-0{number + 1}T00:00:00.000000",
        "end": f"2026-01-0{number + 1}T00:01:00.000000",
        "comment": "",
        "hostname": "far",
        "username": "root",
    }


def test_an_incomplete_archive_list_changes_nothing(machines: Machines) -> None:
    agent = machines.agent()
    repository = machines.repository(agent)

    def resync(items: list[dict[str, Any]] | None) -> str:
        (job,) = machines.admin.post(f"/api/repositories/{repository['id']}/resync").json()["operations"]
        agent.begin(job)
        if items is not None:
            agent.post(job, "parts", {"part": 0, "items": items})
        agent.complete(job, parts=0 if items is None else 1)
        status: str = machines.admin.operation(job)["status"]
        return status

    assert resync([archive(1), archive(2)]) == "completed"
    assert resync(None) == "failed"
    assert resync([{"name": "no id"}]) == "failed"
    assert _names(machines, repository) == {"archive-1", "archive-2"}
    assert resync([]) == "completed"
    assert _names(machines, repository) == set()


def _names(machines: Machines, repository: dict[str, Any]) -> set[str]:
    listed = machines.admin.get(f"/api/repositories/{repository['id']}/archives").json()["archives"]
    return {found["name"] for found in listed}


def test_jobs_are_listed_newest_first_in_pages(machines: Machines) -> None:
    agent: Agent = machines.agent()
    repository = machines.repository(agent)
    jobs = [machines.backup(repository) for _ in range(3)]
    path = "/api/managed-machines/agent-jobs"

    first = machines.admin.get(path, params={"agent": agent.agent_id, "limit": 2}).json()
    rest = machines.admin.get(path, params={"agent": agent.id, "limit": 9, "cursor": first["next_cursor"]}).json()

    assert [job["id"] for job in first["jobs"] + rest["jobs"]] == [*reversed(jobs), repository["setup_operation_id"]]
    assert rest["next_cursor"] is None


def test_account_tokens_can_neither_start_nor_cancel_jobs(machines: Machines) -> None:
    agent = machines.agent()
    repository = machines.repository(agent)
    job = machines.backup(repository)
    with machines.running.anonymous() as client:
        client.headers["X-Backup-Authorization"] = f"Bearer {machines.running.token}"
        paths = (f"agents/{agent.id}/backup-jobs", f"agent-jobs/{job}/cancel")
        answers = [
            client.post(f"/api/managed-machines/{path}", json={"repository_id": repository["id"]}) for path in paths
        ]
    assert {answer.json()["detail"]["key"] for answer in answers} == {"auth.login_token_required"}


def test_changes_of_jobs_and_agents_are_published_on_the_event_stream(machines: Machines) -> None:
    agent = machines.agent()
    repository = machines.repository(agent)
    topics: set[str] = set()
    with machines.admin.stream("GET", "/api/events/stream") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith(":")
        job = machines.backup(repository)
        agent.begin(job)
        agent.heartbeat(agent_version="2.0")
        agent.complete(job)
        for line in lines:
            name, _, value = line.partition(": ")
            if name == "event":
                topics.add(value)
            if name == "data" and (told := json.loads(value)).get("id") == job and told.get("status") == "completed":
                break
    assert {"operation.updated", "agent.updated"} <= topics
