"""However much an agent sends as its result, the service stores and reads a bounded amount, and the job still ends."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backup_agent.client import Client
from backup_agent.job_folder import Ending, JobFolder
from backup_agent.job_reporter import JobReporter
from backup_agent.runtime_api import RuntimeApi
from backup_engine import bounded_json
from backup_protocol import Complete, Job, Result
from tests.contract.agents.agent import Agent, Machines
from tests.contract.fields import error_of
from tests.support.running import Services
from tests.unit.agent.in_test_service import Answer, Request, in_test_service

MIB = 1 << 20
MOST_PARTS = 4


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    services = Services(tmp_path_factory.mktemp("services"))
    bounds = {"HOLDFAST_AGENT_JOB_PARTS": str(MOST_PARTS), "HOLDFAST_AGENT_JOB_PARTS_MIB": "1"}
    yield Machines(services.new(**bounds))
    services.stop()


def listing(machines: Machines) -> tuple[Agent, dict[str, Any], int]:
    """A job whose result is sent in parts, started by its agent."""
    agent = machines.agent()
    repository = machines.repository(agent)
    (job,) = machines.admin.post(f"/api/repositories/{repository['id']}/resync").json()["operations"]
    agent.begin(job)
    return agent, repository, job


def sent(agent: Agent, job: int, part: int, items: list[dict[str, Any]]) -> Any:
    return agent.post(job, "parts", {"part": part, "items": items})


def test_an_agent_may_resend_parts_but_not_exceed_their_number(machines: Machines) -> None:
    agent, _, job = listing(machines)
    for part in range(MOST_PARTS):
        assert sent(agent, job, part, []).status_code == 200
    assert error_of(sent(agent, job, MOST_PARTS, [])) == (413, "agents.too_many_parts")
    for part in range(MOST_PARTS):
        assert sent(agent, job, part, []).status_code == 200
    assert agent.complete(job, parts=MOST_PARTS).json()["status"] == "completed"


@pytest.mark.parametrize("item", [{"comment": "x" * 200_000}, {"comment": [[]] * 2_000}])
def test_parts_that_are_too_large_together_are_refused_and_leave_nothing_behind(
    machines: Machines, item: dict[str, Any]
) -> None:
    agent, repository, job = listing(machines)
    assert sent(agent, job, 0, [item] * 3).status_code == 200
    for part in range(1, MOST_PARTS):
        answer = sent(agent, job, part, [item] * 3)
        if answer.status_code != 200:
            break
    assert error_of(answer) == (413, "agents.parts_too_large")
    assert agent.complete(job, parts=2).status_code == 409
    assert agent.fail(job).json()["status"] == "failed"
    assert machines.admin.get(f"/api/repositories/{repository['id']}/archives").json()["archives"] == []


@pytest.mark.parametrize("key", ["agents.too_many_parts", "agents.parts_too_large"])
def test_an_agent_whose_result_is_too_large_fails_its_job(tmp_path: Path, key: str) -> None:
    """Otherwise it would send the same parts indefinitely, and the repository would stay busy."""
    heard: list[tuple[str, Any]] = []

    def service(request: Request) -> Answer:
        word = request.path.rpartition("/")[2]
        heard.append((word, request.body))
        if word == "parts":
            return Answer(413, {"detail": {"key": key, "message": "Too much.", "params": {}}})
        return Answer(body={"id": 5, "status": "failed"})

    ended: list[Ending | None] = []
    with in_test_service(service) as at:
        reporter = JobReporter(RuntimeApi(Client(at.url)))
        reporter.on_done = lambda _job, ending: ended.append(ending)
        job = JobFolder.make(tmp_path, Job(5, "archives.list", "2026-11-15T00:00:00+00:00", {}))
        job.note_claimed()
        job.end(Complete("2026-11-16T12:00:00+00:00", Result(0)), [{"name": "one"}])
        reporter.add(job)
        reporter.turn()
    assert heard[-1][0] == "fail"
    assert heard[-1][1]["error_key"] == "engine.result_too_large"
    assert ended
    assert not job.folder.exists()


def test_small_values_are_weighed_by_the_memory_they_take() -> None:
    assert bounded_json.weight(b"[" + b"[]," * 100_000 + b"[]]") > 6 * MIB
