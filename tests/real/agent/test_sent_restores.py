"""What an agent sends from its repository while a client waits: restores, downloads, folders; and cut links."""

import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.contract.fields import error_of
from tests.support.agent_site import AgentSite
from tests.support.agents import AgentProcess, create_agent_repository
from tests.support.engines import ENGINES
from tests.support.paced_engine import PacedEngine
from tests.support.processes import processes_naming
from tests.support.service import ServiceProcess, wait_until
from tests.support.sshd import sshd
from tests.support.trees import FIFO, LEADING_OUT, Seen, look_at, make_difficult_tree

SLEEP = "4568.5"
ENGINE = """#!/bin/sh
case " $* " in *" export-tar "*)
    case "$(cat {folder}/mode)" in
        stalls) {engine} "$@" | head -c 100000; touch {folder}/stalls; exec sleep {sleep} ;;
        breaks_off) {engine} "$@" | head -c 100000; exit 2 ;;
    esac
esac
exec {engine} "$@"
"""


@dataclass
class Sending:
    site: AgentSite
    source: Path

    def set_mode(self, word: str) -> None:
        (self.site.folder / "mode").write_text(word)

    def body(self, destination: Path, **more: Any) -> dict[str, Any]:
        return {
            "repository_id": self.site.repository["id"],
            "archive": "whole",
            "destination": str(destination),
            "destination_type": "local",
            **more,
        }

    def start(self, destination: Path, **more: Any) -> int:
        answer = self.site.admin.post("/api/restore/start", json=self.body(destination, **more))
        assert answer.status_code == 200, answer.text
        return int(answer.json()["job_id"])

    def wait_until_stalled(self) -> None:
        file = self.site.folder / "stalls"
        wait_until(file.exists, what=f"the engine stalls: {self.site.agent.own_log()[-2000:]}")
        file.unlink()

    def wait_until_no_engine_is_left(self) -> None:
        wait_until(lambda: not processes_naming(f"sleep\x00{SLEEP}"), what="the agent stops its engine")


@pytest.fixture(scope="module")
def sending(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sending]:
    """The service's machine has no engine at all: what the agent sends needs none."""
    folder = tmp_path_factory.mktemp("sending")
    program = folder / "borg"
    program.write_text(ENGINE.format(folder=folder, engine=ENGINES["1.4"], sleep=SLEEP))
    program.chmod(0o755)
    (folder / "mode").write_text("")
    (folder / "machine").mkdir()
    settings = {"HOLDFAST_BORG1": str(folder / "none"), "HOLDFAST_AGENT_HEARTBEAT_SECONDS": "2"}
    service = ServiceProcess(folder / "data", {**settings, "HOLDFAST_AGENT_OFFLINE_SECONDS": "10"})
    agent = AgentProcess(folder / "machine", program, "")
    site = AgentSite(folder, PacedEngine(folder / "engine", ENGINES["1.4"]), service, agent)
    try:
        service.start()
        agent.server_url = service.url
        agent.register(site.admin).start()
        source = folder / "source"
        make_difficult_tree(source)
        site.repository = create_agent_repository(site.admin, agent, folder / "repository", [source])
        made = site.wait_for_end(site.admin.start_backup(site.repository, archive_name="whole"))
        assert made["status"] == "completed", made
        yield Sending(site, source)
    finally:
        site.end()


@pytest.fixture(autouse=True)
def all_is_up(sending: Sending) -> Iterator[None]:
    sending.set_mode("")
    sending.site.bring_up()
    agent = f"/api/managed-machines/agents/{sending.site.agent.agent_id}"
    wait_until(lambda: sending.site.admin.get(agent).json()["status"] == "online", what="the agent is online")
    yield
    sending.set_mode("")


def carried(tree: dict[bytes, Seen]) -> dict[bytes, Seen]:
    """The part of a tree that a tar stream of engine 1 carries."""
    return {
        path: replace(seen, modified=seen.modified // 10**9, attributes=())
        for path, seen in tree.items()
        if path != FIFO
    }


def check_restored(sending: Sending, ended: dict[str, Any], destination: Path) -> None:
    assert ended["status"] == "completed_with_warnings", (ended["error_key"], ended["error_message"])
    there = destination / str(sending.source).lstrip("/")
    assert carried(look_at(there)) == carried(look_at(sending.source))
    assert ended["result"]["special_files"] == 1
    assert [entry.name for entry in destination.iterdir()] == [sending.source.parts[1]]


# --- destinations ----------------------------------------------------------------------------------------------------


def test_a_difficult_tree_is_restored_to_the_service(sending: Sending, tmp_path: Path) -> None:
    ended = sending.site.wait_for_end(sending.start(tmp_path / "made"))

    check_restored(sending, ended, tmp_path / "made")
    lines = sending.site.admin.log_lines(ended["id"])
    assert any("export-tar" in line and "unpack into" in line for line in lines), lines


@pytest.mark.campaign
def test_a_tree_is_restored_to_an_ssh_machine(sending: Sending, tmp_path: Path) -> None:
    with sshd(tmp_path / "there") as there:
        number = there.connection(sending.site.admin, "there")
        job = sending.start(tmp_path / "made", destination_type="ssh", destination_machine_id=number)
        ended = sending.site.wait_for_end(job)

    check_restored(sending, ended, tmp_path / "made")


@pytest.mark.campaign
def test_a_tree_is_restored_to_the_machine_of_another_agent(sending: Sending, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = AgentProcess(tmp_path / "other", tmp_path / "none", sending.site.service.url)
    try:
        other.register(sending.site.admin).start()
        job = sending.start(tmp_path / "made", destination_type="agent", destination_machine_id=other.agent_id)
        ended = sending.site.wait_for_end(job)
    finally:
        other.end_everything()

    check_restored(sending, ended, tmp_path / "made")


def test_a_download_is_streamed_from_the_agent(sending: Sending) -> None:
    admin, place = sending.site.admin, f"/api/repositories/{sending.site.repository['id']}/archives"
    wait_until(lambda: admin.get(place).json()["archives"], what="the archive is in the index")
    (archive,) = admin.get(place).json()["archives"]
    answer = admin.get(f"{place}/{archive['id']}/download", params={"path": str(sending.source)})

    assert answer.status_code == 200, answer.text
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        names = {name.encode("utf-8", "surrogateescape") for name in tar.getnames()}
    left_out = {b"", FIFO, *LEADING_OUT}
    assert {b"source/" + path for path in look_at(sending.source) if path not in left_out} <= names


@pytest.mark.campaign
def test_a_restore_preview_counts_files_of_an_archive_on_an_agent(sending: Sending, tmp_path: Path) -> None:
    (tmp_path / str(sending.source).lstrip("/")).mkdir(parents=True)
    answer = sending.site.admin.post("/api/restore/preview", json=sending.body(tmp_path))

    assert answer.status_code == 200, answer.text
    assert answer.json()["files"] > 3


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.campaign
def test_an_engine_that_fails_in_the_middle_restores_nothing(sending: Sending, tmp_path: Path) -> None:
    sending.set_mode("breaks_off")
    ended = sending.site.wait_for_end(sending.start(tmp_path / "made"))

    assert (ended["status"], ended["error_key"]) == ("failed", "engine.failed"), ended
    assert list((tmp_path / "made").iterdir()) == []


@pytest.mark.campaign
@pytest.mark.parametrize("victim", ["agent", "service"])
def test_a_cut_link_restores_nothing_and_is_reported_as_interrupted(
    sending: Sending, tmp_path: Path, victim: str
) -> None:
    sending.set_mode("stalls")
    job = sending.start(tmp_path / "made")
    sending.wait_until_stalled()
    if victim == "agent":
        sending.site.agent.kill()
    else:
        sending.site.service.kill()
    sending.wait_until_no_engine_is_left()
    sending.set_mode("")
    sending.site.bring_up()
    ended = sending.site.wait_for_end(job)

    assert (ended["status"], ended["error_key"]) == ("failed", "operations.interrupted"), ended
    assert "start the restore again" in ended["error_message"]
    assert list((tmp_path / "made").iterdir()) == []
    again = sending.site.wait_for_end(sending.start(tmp_path / "made"))
    check_restored(sending, again, tmp_path / "made")


def test_cancelling_a_restore_stops_the_engine_of_the_agent(sending: Sending, tmp_path: Path) -> None:
    sending.set_mode("stalls")
    job = sending.start(tmp_path / "made")
    sending.wait_until_stalled()
    sending.site.admin.post(f"/api/operations/{job}/cancel")
    ended = sending.site.wait_for_end(job)

    assert ended["status"] == "cancelled"
    sending.wait_until_no_engine_is_left()
    assert list((tmp_path / "made").iterdir()) == []


def test_while_the_agent_is_offline_jobs_wait_and_live_requests_fail_immediately(
    sending: Sending, tmp_path: Path
) -> None:
    sending.site.agent.stop()
    agent = f"/api/managed-machines/agents/{sending.site.agent.agent_id}"
    admin = sending.site.admin
    wait_until(lambda: admin.get(agent).json()["status"] == "offline", what="the agent is offline")
    asked = admin.get(f"/api/repositories/{sending.site.repository['id']}/archives/live")
    job = sending.start(tmp_path / "made")
    waiting = admin.operation(job)

    assert error_of(asked) == (503, "agents.offline")
    assert (waiting["status"], waiting["queued_reason"]) == ("pending", "agent_offline")
    sending.site.agent.start()
    check_restored(sending, sending.site.wait_for_end(job), tmp_path / "made")
