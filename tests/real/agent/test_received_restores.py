"""Restores that a real agent receives from a repository opened by the service."""

import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_site import AgentSite
from tests.support.agents import AgentProcess
from tests.support.engines import ENGINES
from tests.support.paced_engine import PacedEngine
from tests.support.processes import processes_naming
from tests.support.service import ServiceProcess, wait_until
from tests.support.sshd import sshd
from tests.support.trees import FIFO, Seen, look_at, make_difficult_tree

ENGINE = """#!/bin/sh
case " $* " in *" export-tar "*)
    case "$(cat {folder}/mode)" in
        stalls) {engine} "$@" | head -c 100000; touch {folder}/stalls; exec sleep 4567.5 ;;
        breaks_off) {engine} "$@" | head -c 100000; exit 2 ;;
    esac
esac
exec {engine} "$@"
"""


@dataclass
class Receiving:
    site: AgentSite
    source: Path
    repository: dict[str, Any]

    def set_mode(self, word: str) -> None:
        (self.site.folder / "mode").write_text(word)

    def start(self, destination: Path, **more: Any) -> int:
        body = {
            "repository_id": self.repository["id"],
            "archive": "whole",
            "destination": str(destination),
            "destination_type": "agent",
            "destination_machine_id": self.site.agent.agent_id,
            **more,
        }
        answer = self.site.admin.post("/api/restore/start", json=body)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["job_id"])

    def wait_until_stalled(self) -> None:
        file = self.site.folder / "stalls"
        wait_until(file.exists, what=f"the engine stalls: {self.site.agent.own_log()[-2000:]}")
        file.unlink()


@pytest.fixture(scope="module")
def receiving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiving]:
    """The agent's machine has no engine at all: receiving a restore needs none."""
    folder = tmp_path_factory.mktemp("receiving")
    program = folder / "borg"
    program.write_text(ENGINE.format(folder=folder, engine=ENGINES["1.4"]))
    program.chmod(0o755)
    (folder / "mode").write_text("")
    (folder / "machine").mkdir()
    service = ServiceProcess(folder / "data", {"HOLDFAST_BORG1": str(program), "HOLDFAST_AGENT_HEARTBEAT_SECONDS": "2"})
    agent = AgentProcess(folder / "machine", folder / "no-engine", "")
    site = AgentSite(folder, PacedEngine(folder / "engine", ENGINES["1.4"]), service, agent)
    try:
        service.start()
        agent.server_url = service.url
        agent.register(site.admin).start()
        source = folder / "source"
        make_difficult_tree(source)
        repository = site.admin.create_repository(folder / "repository", [source])
        made = site.wait_for_end(site.admin.start_backup(repository, archive_name="whole"))
        assert made["status"] == "completed", made
        yield Receiving(site, source, repository)
    finally:
        site.end()


@pytest.fixture(autouse=True)
def all_is_up(receiving: Receiving) -> Iterator[None]:
    receiving.set_mode("")
    receiving.site.bring_up()
    yield
    receiving.set_mode("")


def carried(tree: dict[bytes, Seen]) -> dict[bytes, Seen]:
    """The part of a tree that a tar stream of engine 1 carries."""
    return {
        path: replace(seen, modified=seen.modified // 10**9, attributes=())
        for path, seen in tree.items()
        if path != FIFO
    }


def test_an_agent_receives_the_restore_of_a_difficult_tree(receiving: Receiving, tmp_path: Path) -> None:
    ended = receiving.site.wait_for_end(receiving.start(tmp_path / "made"))

    assert ended["status"] == "completed_with_warnings", (ended["error_key"], ended["error_message"])
    there = tmp_path / "made" / str(receiving.source).lstrip("/")
    assert carried(look_at(there)) == carried(look_at(receiving.source))
    files = [seen for path, seen in look_at(receiving.source).items() if path != FIFO and not stat.S_ISDIR(seen.type)]
    assert (ended["result"]["files_restored"], ended["result"]["special_files"]) == (len(files), 1)
    assert [entry.name for entry in (tmp_path / "made").iterdir()] == [receiving.source.parts[1]]


@pytest.mark.campaign
def test_an_agent_receives_a_restore_from_a_repository_opened_by_an_ssh_machine(
    receiving: Receiving, tmp_path: Path
) -> None:
    admin = receiving.site.admin
    with sshd(tmp_path / "opener") as opener:
        number = opener.connection(admin, "opener", engine_path=str(ENGINES["1.4"]))
        far = {"execution_target": "ssh", "ssh_connection_id": number}
        repository = admin.create_repository(tmp_path / "far", [receiving.source], **far)
        receiving.site.wait_for_end(admin.start_backup(repository, archive_name="whole"))
        job = replace(receiving, repository=repository).start(tmp_path / "made")
        ended = receiving.site.wait_for_end(job)

    assert ended["status"] == "completed_with_warnings", (ended["error_key"], ended["error_message"])
    there = tmp_path / "made" / str(receiving.source).lstrip("/")
    assert carried(look_at(there)) == carried(look_at(receiving.source))


@pytest.mark.campaign
@pytest.mark.parametrize("victim", ["agent", "service"])
def test_a_cut_stream_is_received_again_from_the_beginning(receiving: Receiving, tmp_path: Path, victim: str) -> None:
    receiving.set_mode("stalls")
    job = receiving.start(tmp_path, paths=[str(receiving.source)], restore_layout="contents_only")
    receiving.wait_until_stalled()
    receiving.set_mode("")
    if victim == "agent":
        receiving.site.agent.kill()
        wait_until(lambda: not processes_naming("sleep\x004567.5"), what="the engine ends when the agent is away")
        receiving.site.agent.start()
    else:
        receiving.site.service.kill()
        receiving.site.service.restart()
    ended = receiving.site.wait_for_end(job)

    assert ended["status"] == "completed_with_warnings", (ended["error_key"], ended["error_message"])
    assert carried(look_at(tmp_path)).keys() == carried(look_at(receiving.source)).keys()


@pytest.mark.campaign
def test_a_failing_engine_restores_nothing(receiving: Receiving, tmp_path: Path) -> None:
    receiving.set_mode("breaks_off")
    ended = receiving.site.wait_for_end(receiving.start(tmp_path))

    assert (ended["status"], ended["error_key"]) == ("failed", "engine.failed"), ended["error_message"]
    assert ended["result"]["files_restored"] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.campaign
def test_a_cancel_stops_the_engine_and_leaves_nothing(receiving: Receiving, tmp_path: Path) -> None:
    receiving.set_mode("stalls")
    job = receiving.start(tmp_path)
    receiving.wait_until_stalled()
    assert receiving.site.admin.post(f"/api/restore/cancel/{job}").status_code == 200
    ended = receiving.site.wait_for_end(job)

    assert (ended["status"], ended["result"]["files_restored"]) == ("cancelled", 0)
    wait_until(lambda: not processes_naming("sleep\x004567.5"), what="the engine has ended")
    assert list(tmp_path.iterdir()) == []
