"""Bodies that no honest agent sends are refused or stored as far as possible, and never cause an internal error."""

from typing import Any

import pytest

from tests.contract.agents.agent import Agent, Machines

HUGE = 10**30
NOT_JSON_FOR_A_STORE = (
    '{"part": 0, "items": [{"id": "x\\u0000y", "size": NaN, "name": "n", "start": "2026-01-01T00:00:00"}]}'
)


def send(agent: Agent, job: int, what: str, text: str) -> Any:
    headers = {"Content-Type": "application/json"}
    return agent.client.post(f"/api/agents/jobs/{job}/{what}", content=text.encode(), headers=headers)


def test_values_that_a_store_cannot_hold_do_not_make_requests_fail(
    on_either_store: Machines,
) -> None:
    machines = on_either_store
    with machines.running_backup() as (agent, job):
        assert send(agent, job, "parts", NOT_JSON_FOR_A_STORE).status_code == 200
        created = {
            "archive": {
                "id": "a" * 70,
                "name": "n\0ul",
                "start": "2026-01-01T00:00:00",
                "end": "2026-01-01T00:00:00",
                "duration": 1,
                "stats": {"original_size": HUGE, "compressed_size": 1, "deduplicated_size": 1, "nfiles": 1},
            }
        }
        ended = agent.complete(job, archive_name="n", details={"created": created, "more": [HUGE]})

        assert (ended.status_code, ended.json()["status"]) == (200, "completed")
        assert machines.admin.operation(job)["status"] == "completed"


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("start", {"started_at": "yesterday"}),
        ("progress", {"progress_percent": 101}),
        ("progress", {"nfiles": -1}),
        ("progress", {"original_size": HUGE}),
        ("logs", {"sequence": -1, "message": "x"}),
        ("logs", {"entries": "x"}),
        ("logs", []),
        ("parts", {"part": -1, "items": []}),
        ("parts", {"part": 0, "items": ["x"]}),
        ("complete", {"result": {"return_code": "zero"}}),
        ("complete", {"result": {"stats": {"nfiles": HUGE}}}),
        ("fail", {"return_code": 2}),
        ("fail", {"error_message": "x", "error_key": "Not A Key"}),
    ],
)
def test_malformed_bodies_are_refused_and_change_nothing(
    malformed: tuple[Machines, Agent, int], what: str, body: Any
) -> None:
    machines, agent, job = malformed
    assert agent.post(job, what, body).status_code == 422
    assert machines.job(job)["status"] == "running"


@pytest.fixture(scope="module")
def malformed(on_sqlite: Machines) -> tuple[Machines, Agent, int]:
    agent = on_sqlite.agent()
    job = on_sqlite.backup(on_sqlite.repository(agent))
    agent.begin(job)
    return on_sqlite, agent, job


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_a_clock_at_either_end_of_the_calendar_is_corrected(machines: Machines, moment: str) -> None:
    agent = machines.agent()
    agent.heartbeat(sent_at=moment)
    job = machines.backup(machines.repository(agent))
    agent.claim(job)

    assert agent.post(job, "start", {"started_at": moment}).status_code == 200
    assert agent.post(job, "complete", {"completed_at": moment, "result": {}}).status_code == 200
    shown = machines.job(job)
    assert shown["claimed_at"] <= shown["started_at"] <= shown["completed_at"]


@pytest.mark.parametrize("job", [0, -1, 2**63 - 1, 2**63, "x"])
def test_a_job_that_cannot_exist_is_not_found(malformed: tuple[Machines, Agent, int], job: Any) -> None:
    assert malformed[1].job(job).status_code in (404, 422)
    assert malformed[1].claim(job).status_code in (404, 422)
