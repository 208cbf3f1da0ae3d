"""An agent of the previous version: its recorded wheels run unchanged with the current service."""

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_site import AgentSite
from tests.support.agents import AgentProcess

WHEELS = sorted((Path(__file__).parent / "version_before").glob("*.whl"))


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentSite]:
    folder = tmp_path_factory.mktemp("before")
    for wheel in WHEELS:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "program")
    program = (sys.executable, "-S", "-m", "backup_agent")  # without the packages of the test's own environment
    agent = AgentProcess(folder, folder, "", {"PYTHONPATH": str(folder / "program")}, program)
    site = AgentSite.build(folder, agent, HOLDFAST_AGENT_HEARTBEAT_SECONDS="2")
    yield site
    site.end()


def started(site: AgentSite, path: str, **body: Any) -> dict[str, Any]:
    answer = site.admin.post(path, json=body)
    assert answer.status_code in (200, 201, 202), answer.text
    return site.wait_for_end(answer.json()["job_id"])


def archive_ids(site: AgentSite) -> list[int]:
    listed = site.admin.get(f"/api/repositories/{site.repository['id']}/archives").json()["archives"]
    return [archive["id"] for archive in listed]


def test_an_agent_of_the_previous_version_executes_every_kind_of_job(old: AgentSite, tmp_path: Path) -> None:
    place = f"/api/repositories/{old.repository['id']}"
    backups = [old.wait_for_end(old.backup("quick")) for _ in range(3)]
    assert [ended["status"] for ended in backups] == ["completed"] * 3
    assert backups[0]["result"]["stats"]["nfiles"]
    assert backups[0]["archive_name"]

    checked = started(old, f"{place}/check")
    assert (checked["status"], checked["result"]["problem_count"]) == ("completed", 0)

    deleted = old.admin.delete(f"/api/archives/{archive_ids(old)[0]}")
    assert old.wait_for_end(deleted.json()["job_id"])["result"]["archive"]["id"]
    assert len(archive_ids(old)) == 2

    pruned = started(old, f"{place}/prune", keep_last=1)
    assert (pruned["status"], pruned["result"]["pruned_count"]) == ("completed", 1)
    assert len(archive_ids(old)) == 1

    assert started(old, f"{place}/compact")["status"] == "completed"

    restored = started(
        old,
        "/api/restore/start",
        repository_id=old.repository["id"],
        archive_id=archive_ids(old)[0],
        destination=str(tmp_path / "restored"),
        destination_type="agent",
        destination_machine_id=old.agent.agent_id,
    )
    source = old.engine.source("quick")
    assert (restored["status"], restored["error_message"]) == ("completed", None)
    assert restored["result"]["files_restored"] == sum(path.is_file() for path in source.rglob("*"))
