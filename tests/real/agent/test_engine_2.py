"""An agent works on repositories of engine 2 as it does on those of engine 1."""

import filecmp
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import AgentProcess, create_agent_repository
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.service import Client, ServiceProcess
from tests.support.warm_engines import warm_program

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif(ENGINE_2 is None, reason="`tools/setup.sh test` builds engine 2"),
]


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "machine").mkdir()
        self.source = folder / "source"
        (self.source / "letters").mkdir(parents=True)
        (self.source / "letters" / "may.txt").write_text("may\n")
        (self.source / "notes.txt").write_text("one\n")
        self.service = ServiceProcess(folder / "data", {"HOLDFAST_AGENT_HEARTBEAT_SECONDS": "2"}).start()
        engine = warm_program(ENGINES[max(ENGINES)])
        self.agent = AgentProcess(
            folder / "machine", engine, self.service.url, {"BACKUP_AGENT_BORG2": str(warm_program(ENGINE_2))}
        )
        self.admin: Client = self.service.client().login()
        self.agent.register(self.admin).start()

    def close(self) -> None:
        self.agent.end_everything()
        self.service.kill()

    def end_of(self, answer: Any) -> dict[str, Any]:
        assert answer.status_code == 200, answer.text
        job = answer.json()["job_id"]
        try:
            return self.admin.wait_for_end(job)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.agent.own_log()[-3000:]}") from error

    def done(self, answer: Any) -> dict[str, Any]:
        ended = self.end_of(answer)
        assert ended["status"] == "completed", (ended, self.admin.log_lines(ended["id"]))
        return ended


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    built = Site(tmp_path_factory.mktemp("site-2"))
    yield built
    built.close()


def test_an_agent_backs_up_restores_prunes_and_deletes_with_engine_2(site: Site) -> None:
    repository = create_agent_repository(
        site.admin, site.agent, site.folder / "repository", [site.source], engine_version=2, encryption="aes256-ocb"
    )
    url = f"/api/repositories/{repository['id']}"
    start = {"repository": repository["path"]}

    first = site.done(site.admin.post("/api/backup/start", json=start))
    (site.source / "notes.txt").write_text("one\ntwo\n")
    second = site.done(site.admin.post("/api/backup/start", json=start))

    assert first["archive_name"] == second["archive_name"] == repository["name"]
    assert first["result"]["stats"]["compressed_size"] is None
    archives = site.admin.get(f"{url}/archives").json()["archives"]
    assert len({archive["engine_id"] for archive in archives}) == 2
    older = min(archives, key=lambda archive: archive["start"])

    restored = site.folder / "restored"
    body = {
        "repository_id": repository["id"],
        "archive_id": older["id"],
        "paths": [str(site.source)],
        "destination": str(restored),
        "destination_type": "agent",
        "restore_layout": "contents_only",
    }
    site.done(site.admin.post("/api/restore/start", json=body))
    assert (restored / "notes.txt").read_text() == "one\n", "the older archive of two of one name"
    assert filecmp.cmp(restored / "letters" / "may.txt", site.source / "letters" / "may.txt", shallow=False)

    asked_here = site.admin.get(f"{url}/archives/live")
    assert (asked_here.status_code, asked_here.json()["detail"]["key"]) == (422, "repository.on_agent")
    site.done(site.admin.post(f"{url}/check", json={}))
    refused = site.end_of(site.admin.post(f"{url}/prune", json={"keep_within": "7d"}))
    assert (refused["status"], refused["error_key"]) == ("failed", "engine.unsupported")
    pruned = site.done(site.admin.post(f"{url}/prune", json={"keep_last": 1}))
    assert ([one["id"] for one in pruned["result"]["prune"]], pruned["result"]["soft_deleted"]) == (
        [older["engine_id"]],
        True,
    )
    (left,) = site.admin.get(f"{url}/archives").json()["archives"]
    gone = site.done(site.admin.delete(f"/api/archives/{left['id']}"))
    assert gone["result"]["soft_deleted"] is True
    site.done(site.admin.post(f"{url}/compact", json={}))
