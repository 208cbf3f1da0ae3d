"""The repository at a path of another machine is verified there, or by querying the engine."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.identity.test_repository_identity import ENCRYPTION, archives, backed_up, content_of, put_stranger
from tests.contract.fields import error_of
from tests.support.agents import AgentProcess, create_agent_repository
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.running import PASSPHRASE, Running, Services
from tests.support.sshd import Sshd, sshd
from tests.support.warm_engines import warm_program

ENGINE = warm_program(ENGINES["1.4"])
PLACES = [
    pytest.param("ssh repository", 1, marks=pytest.mark.campaign),  # the engine runs here, as for a local one
    *((target, 1) for target in ("engine by ssh", "agent")),
    *((target, 2) for target in ("engine by ssh", "agent") if ENGINE_2),
]


class Site:
    """A service with a machine by ssh for each engine, and one with an agent, all of them on this machine."""

    def __init__(self, running: Running, machines: dict[int, Sshd], agent: AgentProcess) -> None:
        self.running = running
        self.admin = running.admin
        self.agent = agent
        engines = {1: ENGINE, 2: ENGINE_2 and warm_program(ENGINE_2)}
        self.connections = {
            major: machine.connection(running.admin, f"machine-{major}", engine_path=str(engines[major]))
            for major, machine in machines.items()
        }

    def repository(self, target: str, major: int) -> tuple[dict[str, Any], Path]:
        """A repository of a target, and its path."""
        path = self.running.new_path("far")
        sources: list[Path | str] = [self.running.new_source()]
        more: dict[str, Any] = {"passphrase": PASSPHRASE, "encryption": ENCRYPTION[major], "index_mode": "archives"}
        more |= {"engine_version": major}
        if target == "agent":
            return create_agent_repository(self.admin, self.agent, path, sources, **more), path
        kinds = {"repository_type": "ssh"} if target == "ssh repository" else {"execution_target": "ssh"}
        made = self.admin.create_repository(path, sources, ssh_connection_id=self.connections[major], **kinds, **more)
        return made, path

    def older_copy(self, target: str, major: int) -> dict[str, Any]:
        """A repository of a target, reset to its state before its second backup."""
        repository, path = self.repository(target, major)
        backed_up(self.admin, repository)
        self.running.wait_until_idle()
        copy = self.running.new_path("copy")
        shutil.copytree(path, copy)
        backed_up(self.admin, repository)
        self.running.wait_until_idle()
        shutil.rmtree(path)
        copy.rename(path)
        return repository


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    services = Services(tmp_path_factory.mktemp("services"))
    running = services.new(HOLDFAST_AGENT_HEARTBEAT_SECONDS="2", HOLDFAST_INLINE_WAIT_SECONDS="60")
    more = {"BACKUP_AGENT_BORG2": str(warm_program(ENGINE_2))} if ENGINE_2 else {}
    agent = AgentProcess(running.new_folder("machine"), ENGINE, running.process.url, more)
    try:
        with ExitStack() as stack:
            machines = {
                major: stack.enter_context(sshd(tmp_path_factory.mktemp(f"sshd-{major}")))
                for major in ([1, 2] if ENGINE_2 else [1])
            }
            agent.register(running.admin).start()
            yield Site(running, machines, agent)
    finally:
        agent.end_everything()
        services.stop()


@pytest.mark.parametrize(("target", "major"), PLACES)
def test_a_foreign_repository_on_another_machine_is_neither_written_to_nor_listed(
    site: Site, target: str, major: int
) -> None:
    admin = site.admin
    repository, path = site.repository(target, major)
    backed_up(admin, repository)
    site.running.wait_until_idle()
    before = archives(admin, repository)
    kept = site.running.new_path("kept")
    path.rename(kept)
    put_stranger(site.running, major, path)
    stranger = content_of(path)

    ended = [
        admin.wait_for_end(job)
        for job in (
            admin.start_backup(repository),
            admin.post(f"/api/repositories/{repository['id']}/resync").json()["operations"][0],
            admin.post(f"/api/repositories/{repository['id']}/compact", json={}).json()["job_id"],
        )
    ]
    assert [(one["kind"], one["status"], one["error_key"]) for one in ended] == [
        (kind, "failed", "repository.replaced") for kind in ("backup", "archives", "compact")
    ]
    live = admin.get("/api/archives/list", params={"repository_id": repository["id"]})
    assert error_of(live) == (409, "repository.replaced")

    assert content_of(path) == stranger
    site.running.wait_until_idle()
    assert archives(admin, repository).keys() == before.keys()
    shutil.rmtree(path)
    kept.rename(path)
    backed_up(admin, repository)


@pytest.mark.parametrize(("target", "major"), PLACES)
def test_an_older_copy_on_another_machine_is_used_after_confirmation(site: Site, target: str, major: int) -> None:
    admin = site.admin
    repository = site.older_copy(target, major)
    confirm = f"/api/repositories/{repository['id']}/confirm-older"

    assert admin.wait_for_end(admin.start_backup(repository))["error_key"] == "engine.repository_older"
    told = admin.post(confirm, json={"dry_run": True})
    assert (told.status_code, told.json().get("missing_count")) == (200, 1), told.text
    assert admin.wait_for_end(admin.start_backup(repository))["error_key"] == "engine.repository_older"
    confirmed = admin.post(confirm, json={})

    assert (confirmed.status_code, confirmed.json().get("confirmed")) == (200, True), confirmed.text
    backed_up(admin, repository)
    site.running.wait_until_idle()
    assert sorted(bool(archive["lost_at"]) for archive in archives(admin, repository).values()) == [False, False, True]


@pytest.mark.parametrize(("target", "major"), PLACES)
def test_an_older_copy_on_another_machine_is_imported_after_confirmation(site: Site, target: str, major: int) -> None:
    admin = site.admin
    repository = site.older_copy(target, major)
    assert admin.delete(f"/api/repositories/{repository['id']}").status_code == 204
    same = ("path", "engine_version", "source_paths", "repository_type", "execution_target", "ssh_connection_id")
    body = {name: repository[name] for name in same if repository.get(name) is not None}
    body |= {"name": site.running.new_name("older"), "passphrase": PASSPHRASE, "index_mode": "archives"}
    if target == "agent":
        body["agent_machine_id"] = site.agent.agent_id

    refused = admin.post("/api/repositories/import", json=body)
    if target == "agent":
        assert admin.wait_for_end(refused.json()["setup_operation_id"])["error_key"] == "engine.repository_older"
        assert admin.delete(f"/api/repositories/{refused.json()['id']}").status_code == 204
    else:
        assert error_of(refused) == (409, "engine.repository_older")
    taken = admin.post("/api/repositories/import", json={**body, "older_ok": True})

    assert taken.status_code == 201, taken.text
    if target == "agent":
        assert admin.wait_for_end(taken.json()["setup_operation_id"])["status"] == "completed"
    backed_up(admin, taken.json())
