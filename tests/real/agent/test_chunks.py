"""Archives of an agent's repository are indexed by chunks, with the same results as from the listing."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_site import AgentSite
from tests.support.agents import AgentProcess, create_agent_repository
from tests.support.engines import ENGINE_2
from tests.support.service import wait_until


@pytest.mark.campaign
@pytest.mark.parametrize(
    "engine", [1, pytest.param(2, marks=pytest.mark.skipif(ENGINE_2 is None, reason="needs engine 2"))]
)
def test_an_index_an_agent_reads_by_chunks_equals_the_one_from_its_listing(
    site: AgentSite, tmp_path: Path, engine: int
) -> None:
    source = tmp_path / "source"
    (source / "folder").mkdir(parents=True)
    (source / "folder" / "a file").write_text("its content")
    (source / "link").symlink_to("folder")
    variables = {"BACKUP_AGENT_BORG2": str(ENGINE_2)} if engine == 2 else {}
    agent = AgentProcess(tmp_path / "machine", site.engine.engine, site.service.url, variables)
    agent.folder.mkdir()
    agent.register(site.admin).start()
    try:
        encryption = "aes256-ocb" if engine == 2 else "repokey-blake2"
        settings = {"index_mode": "full", "engine_version": engine, "encryption": encryption}
        repository = create_agent_repository(site.admin, agent, tmp_path / "by-chunks", [source], **settings)
        for content in ("first", "second"):
            (source / "changing").write_text(content)
            assert site.wait_for_end(site.admin.start_backup(repository))["status"] == "completed"
        wait_until(lambda: not site.admin.get("/api/operations/queue").json()["repositories"], what="nothing runs")
        url = f"/api/repositories/{repository['id']}"
        assert routes_of(site, url, rebuild(site, url)) == {"chunks": 2}
        by_chunks = answers(site, url, source)

        verdicts = site.service.data_dir / "history" / "routes.json"
        kept = json.loads(verdicts.read_text())
        verdicts.write_text(json.dumps({key: {**one, "failure": "told so by a test"} for key, one in kept.items()}))
        try:
            assert routes_of(site, url, rebuild(site, url)) == {"listing": 2}
        finally:
            verdicts.write_text(json.dumps(kept))
        assert answers(site, url, source) == by_chunks
    finally:
        agent.end_everything()


def rebuild(site: AgentSite, url: str) -> list[int]:
    answer = site.admin.post(f"{url}/rebuild", json={"from": "history"})
    assert answer.status_code == 200, answer.text
    operations: list[int] = answer.json()["operations"]
    return operations


def routes_of(site: AgentSite, url: str, operations: list[int]) -> dict[str, int]:
    (ended,) = [site.wait_for_end(one) for one in operations]
    assert ended["status"] == "completed", ended
    routes: dict[str, int] = ended["result"]["routes"]
    assert routes, (ended["result"], url)
    return routes


def answers(site: AgentSite, url: str, source: Path) -> list[Any]:
    archives = [archive["id"] for archive in site.admin.get(f"{url}/archives").json()["archives"]]
    folder = str(source).lstrip("/")
    return [
        *(
            site.admin.get(f"{url}/archives/{one}/browse", params={"path": folder}).json()["entries"]
            for one in archives
        ),
        site.admin.get(f"{url}/archives/{archives[0]}/changes", params={"compare_to": archives[1]}).json()["changes"],
        site.admin.get(f"{url}/history", params={"path": f"{folder}/changing"}).json(),
    ]
