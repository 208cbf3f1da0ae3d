"""A third-party agent works in any repository it finds at the path: its report is compared with the intended
repository.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.contract.agents.agent import Agent, Machines
from tests.contract.agents.evidence import answer, listed, question_about
from tests.support.running import Services

OWN, STRANGER = "b" * 64, "c" * 64
ARCHIVE = "a" * 64
SIZES = {"original_size": 5, "compressed_size": 4, "deduplicated_size": 3, "nfiles": 2}


def created(repository: str, name: str = "first", archive: str = ARCHIVE) -> dict[str, Any]:
    """What the engine's `create` prints."""
    times = {"start": "2026-01-02T03:04:05.000000", "end": "2026-01-02T03:04:06.000000", "duration": 1.0}
    return {
        "archive": {"id": archive, "name": name, **times, "stats": SIZES},
        "repository": {"id": repository, "location": "/far"},
    }


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    services = Services(tmp_path_factory.mktemp("foreign-agents"))
    yield Machines(services.get())
    services.stop()


@pytest.fixture
def known(machines: Machines) -> tuple[Agent, dict[str, Any]]:
    """An agent and its repository with one archive, whose first backup has reported the repository's id."""
    agent = machines.agent()
    repository = machines.repository(agent)
    job = machines.backup(repository)
    agent.begin(job)
    agent.complete(job, archive_name="first", stats=SIZES, details={"created": created(OWN)})
    assert names(machines, repository) == ["first"]
    agent.finish_all()
    assert machines.admin.get(f"/api/repositories/{repository['id']}").json()["engine_id"] == OWN
    return agent, repository


def names(machines: Machines, repository: dict[str, Any]) -> list[str]:
    answer = machines.admin.get(f"/api/repositories/{repository['id']}/archives").json()
    return [archive["name"] for archive in answer["archives"]]


def started(machines: Machines, repository: dict[str, Any], what: str) -> int:
    if what == "backup":
        return machines.backup(repository)
    base = f"/api/repositories/{repository['id']}"
    if what == "delete":
        [archive] = machines.admin.get(f"{base}/archives").json()["archives"]
        answer = machines.admin.delete(f"/api/archives/{archive['id']}")
    elif what == "prune":
        answer = machines.admin.post(f"{base}/prune", json={"keep_last": 1})
    else:
        answer = machines.admin.post(f"{base}/resync")
    assert answer.status_code == 200, answer.text
    body = answer.json()
    job: int = body["operations"][0] if what == "resync" else body["job_id"]
    return job


REPORTS: dict[str, dict[str, Any]] = {
    "backup": {"created": created(STRANGER, "second", "d" * 64)},
    "resync": {"info": {"repository": {"id": STRANGER}}},
    "prune": {"repository": {"id": STRANGER}, "prune": [{"archive": "first", "id": ARCHIVE, "time": ""}]},
    "delete": {"repository": {"id": STRANGER}, "deleted": [ARCHIVE]},
}


@pytest.mark.parametrize("says", ["complete", "fail"])
@pytest.mark.parametrize("what", sorted(REPORTS))
def test_a_foreign_agents_job_in_another_repository_fails_and_leaves_the_index_unchanged(
    machines: Machines, known: tuple[Agent, dict[str, Any]], what: str, says: str
) -> None:
    agent, repository = known
    job = started(machines, repository, what)
    agent.begin(job)
    if what == "resync":
        assert agent.post(job, "parts", {"part": 0, "items": []}).status_code == 200
    result = {"return_code": 0, "details": REPORTS[what], "parts": 1 if what == "resync" else 0}

    body = {"result": result, **({"error_message": "it broke"} if says == "fail" else {})}
    assert agent.post(job, says, body).json()["status"] == "failed"

    ended = machines.admin.operation(job)
    assert (ended["status"], ended["error_key"]) == ("failed", "repository.replaced")
    assert "accept-replacement" in ended["error_message"]
    assert names(machines, repository) == ["first"]
    assert agent.poll(limit=10) == []


def test_a_report_with_the_right_repository_id_or_without_one_is_accepted(
    machines: Machines, known: tuple[Agent, dict[str, Any]]
) -> None:
    agent, repository = known
    for number, told in enumerate((created(OWN, "second", "d" * 64), {})):
        job = machines.backup(repository)
        agent.begin(job)
        agent.complete(job, archive_name=f"name-{number}", stats=SIZES, details={"created": told})
        assert machines.admin.operation(job)["status"] == "completed"
        agent.finish_all()


def test_an_unrelated_archive_is_never_mistaken_for_the_backups_own(
    machines: Machines, known: tuple[Agent, dict[str, Any]]
) -> None:
    """The agent does not write the backup's key into the comment, and names the archive by its template."""
    agent, repository = known
    job = machines.backup(repository)
    agent.begin(job)
    template = machines.job(job)["payload"]["backup"]["archive_name"]
    agent.complete(job, archive_name=template, stats=SIZES)
    question = question_about(agent, job)
    assert question is not None
    name, now = template.split("{")[0] + "2026-01-01T00:00:00", datetime.now(UTC)

    answer(
        agent,
        question,
        listed("", f"{name}.checkpoint", now, "1" * 64),
        listed(f"holdfast:{'2' * 8}-2222-4222-8222-{'2' * 12}", f"{name}.2", now, "2" * 64),
        listed("", f"{name}.3", datetime(2020, 1, 1, tzinfo=UTC), "3" * 64),
        listed("", f"{name}.4", now, ARCHIVE),
    )

    assert machines.admin.operation(job)["archive_name"] is None
