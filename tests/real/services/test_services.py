"""Services of a real systemd: stopped while the engine runs, and running again whatever is killed."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_site import AgentSite
from tests.support.processes import processes_naming
from tests.support.service import wait_until
from tests.support.sshd import sshd
from tests.support.systemd import Systemd, systemd

WEB, DATABASE = "web.service", "database.service"
ROUNDS = int(os.environ.get("HOLDFAST_SERVICE_KILLS", "25"))


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Systemd]:
    with systemd(tmp_path_factory.mktemp("systemd"), WEB, DATABASE) as manager:
        yield manager


@pytest.fixture(scope="module")
def site(manager: Systemd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentSite]:
    """A service and an agent on the machine of this systemd."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{manager.programs}:{os.environ['PATH']}")
        built = AgentSite.build(tmp_path_factory.mktemp("site"))
        yield built
        built.end()


@pytest.fixture
def repository(site: AgentSite, tmp_path: Path) -> dict[str, Any]:
    """A repository of the service's own machine, whose backups stop both services."""
    created = site.admin.create_repository(tmp_path / f"repository-{tmp_path.name}", [site.engine.source("held")])
    stop_for(site, created, WEB, DATABASE)
    return created


def stop_for(site: AgentSite, repository: dict[str, Any], *names: str) -> None:
    answer = site.admin.put(f"/api/repositories/{repository['id']}/services", json={"services": list(names)})
    assert answer.status_code == 200, answer.text


def states(manager: Systemd) -> set[str]:
    return {manager.state(WEB), manager.state(DATABASE)}


def run_again(manager: Systemd) -> bool:
    return states(manager) == {"active"}


def engine_waits(site: AgentSite, before: int) -> bool:
    runs = site.engine.runs()
    return len(runs) > before and site.engine.said(runs[-1].id) > 2


def kill_all_of(folder: Path) -> None:
    """kill -9 everything that runs for this folder: shims, engines, links."""
    for pid in processes_naming(f"{folder}/"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_services_stay_stopped_while_the_engine_runs_even_if_holdfast_is_killed(
    site: AgentSite, manager: Systemd, repository: dict[str, Any]
) -> None:
    before, noted = len(site.engine.runs()), len(manager.journal(WEB))
    number = site.admin.start_backup(repository)
    wait_until(lambda: engine_waits(site, before), what="the engine runs")
    assert states(manager) == {"inactive"}
    site.service.kill()
    site.service.restart()
    with site.engine.let_go():
        ended = site.admin.wait_for_end(number)
    assert ended["status"] == "completed", ended
    assert run_again(manager)
    assert manager.journal(WEB)[noted:] == ["stopped", "started"]
    log = site.admin.log_lines(number)
    assert log.count(f"Stopping {WEB}, {DATABASE} for the backup.") == log.count("The services are running again.") == 1


def test_services_run_again_after_everything_was_killed(
    site: AgentSite, manager: Systemd, repository: dict[str, Any]
) -> None:
    before = len(site.engine.runs())
    number = site.admin.start_backup(repository)
    wait_until(lambda: engine_waits(site, before), what="the engine runs")
    site.service.kill()
    kill_all_of(site.service.data_dir)
    assert states(manager) == {"inactive"}
    with site.engine.let_go():
        site.service.restart()
        wait_until(lambda: run_again(manager), what="the services run again")
        assert site.admin.wait_for_end(number)["status"] == "completed"
    assert run_again(manager)


def test_a_service_that_fails_to_start_causes_a_warning_and_is_retried_until_it_starts(
    site: AgentSite, manager: Systemd, repository: dict[str, Any]
) -> None:
    before = len(site.engine.runs())
    number = site.admin.start_backup(repository)
    wait_until(lambda: engine_waits(site, before), what="the engine runs")
    manager.break_unit(WEB)
    with site.engine.let_go():
        ended = site.admin.wait_for_end(number)
    assert ended["status"] == "completed_with_warnings", ended
    assert any(WEB in line for line in site.admin.log_lines(number)), site.admin.log_lines(number)
    assert manager.state(WEB) != "active"
    assert manager.state(DATABASE) == "active"
    manager.mend_unit(WEB)
    wait_until(lambda: run_again(manager), what="the service runs again")


def test_an_unknown_service_fails_the_backup_and_the_others_run_again(
    site: AgentSite, manager: Systemd, repository: dict[str, Any]
) -> None:
    stop_for(site, repository, WEB, "nobody-has-this.service")
    ended = site.admin.wait_for_end(site.admin.start_backup(repository))
    assert (ended["status"], ended["error_key"]) == ("failed", "backup.service_unknown")
    assert run_again(manager)


def test_an_agent_stops_only_services_its_owner_allows_and_restarts_them_without_holdfast(
    site: AgentSite, manager: Systemd
) -> None:
    stop_for(site, site.repository, WEB)
    refused = site.wait_for_end(site.backup("quick"))
    assert (refused["status"], refused["error_key"]) == ("failed", "backup.service_refused")
    assert manager.state(WEB) == "active"

    config = site.agent.config / "config.toml"
    config.write_text(config.read_text().replace("allow = []", f'allow = ["{WEB}"]'))
    site.agent.stop()
    site.agent.start()
    number = site.backup("held")
    site.wait_for_said(number)
    assert manager.state(WEB) == "inactive"
    site.service.kill()
    site.agent.kill()
    site.agent.start()
    with site.engine.let_go():
        wait_until(lambda: manager.state(WEB) == "active", what="the agent alone starts the service")
        site.bring_up()
        assert site.wait_for_end(number)["status"] == "completed"
    stop_for(site, site.repository)


def test_a_service_of_an_ssh_machine_is_stopped_and_started_on_that_machine(
    site: AgentSite, manager: Systemd, tmp_path: Path
) -> None:
    with sshd(tmp_path / "machine", path=f"{manager.programs}:/usr/local/bin:/usr/bin:/bin") as machine:
        program = str(site.engine.program)
        connection = machine.connection(site.admin, "ssh machine of services", engine_path=program)
        more = {"execution_target": "ssh", "ssh_connection_id": connection}
        created = site.admin.create_repository(tmp_path / "by-ssh", [site.engine.source("held")], **more)
        stop_for(site, created, WEB)
        before, noted = len(site.engine.runs()), len(manager.journal(WEB))
        number = site.admin.start_backup(created)
        wait_until(lambda: engine_waits(site, before), what="the engine runs")
        assert manager.state(WEB) == "inactive"
        site.service.kill()
        kill_all_of(site.service.data_dir)  # the links; the engine continues on the ssh machine
        site.service.restart()
        assert manager.state(WEB) == "inactive"
        with site.engine.let_go():
            assert site.admin.wait_for_end(number)["status"] == "completed"
        assert manager.journal(WEB)[noted:] == ["stopped", "started"]


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_services_run_again_whatever_is_killed_at_a_random_instant(
    site: AgentSite, manager: Systemd, repository: dict[str, Any], seed: int
) -> None:
    chance = random.Random(seed)
    site.admin.put(f"/api/repositories/{repository['id']}", json={"source_paths": [str(site.engine.source("around"))]})
    number = site.admin.start_backup(repository)
    time.sleep(chance.uniform(0, 3))
    site.service.kill()
    if chance.random() < 0.5:
        kill_all_of(site.service.data_dir)
    site.service.restart()
    site.admin.wait_for_end(number)
    wait_until(lambda: run_again(manager), 60, what="the services run again within a minute")
    assert not list((site.service.data_dir / "holds").glob("*.json"))
