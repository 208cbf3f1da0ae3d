"""Scripts on a real agent: only what its machine allows, once, despite kills of the service and the agent."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_site import AgentSite
from tests.support.service import wait_until

URL = "/api/scripts"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentSite]:
    built = AgentSite.build(tmp_path_factory.mktemp("site"))
    yield built
    built.end()


def put(site: AgentSite, name: str, content: str, **more: Any) -> dict[str, Any]:
    body = {"name": name, "content": content, "where": "agent", **more}
    answer = site.admin.post(f"{URL}/", json=body)
    assert answer.status_code == 201, answer.text
    created: dict[str, Any] = answer.json()
    return created


def start(site: AgentSite, script: dict[str, Any], **more: Any) -> int:
    body = {"repository_id": site.repository["id"], **more}
    answer = site.admin.post(f"{URL}/{script['id']}/run", json=body)
    assert answer.status_code == 200, answer.text
    number: int = answer.json()["job_id"]
    return number


def allow(site: AgentSite, accept: str) -> None:
    """Write what the owner of the machine allows into its configuration."""
    file = config_of(site)
    text = file.read_text()
    before = next(line for line in text.splitlines() if line.startswith("accept"))
    file.write_text(text.replace(before, f'accept = "{accept}"'))
    site.agent.stop()
    site.agent.start()


def config_of(site: AgentSite) -> Path:
    return next(site.agent.folder.rglob("config.toml"))


def test_an_agent_runs_only_what_its_machine_allows_and_only_once_despite_kills(site: AgentSite) -> None:
    script = put(site, "plain", "echo hello $HOLDFAST_PARAM_WORD\n", parameters=[{"name": "word", "secret": True}])
    installed = put(site, "installed", "", installed_as="greet")
    refused = site.wait_for_end(start(site, script, parameters={"word": "hush-hush"}))
    assert (refused["status"], refused["error_key"]) == ("failed", "scripts.agent_refuses")

    folder = config_of(site).parent / "scripts"
    folder.mkdir(mode=0o755)
    (folder / "greet").write_text('#!/bin/sh\necho "greetings $# $HOLDFAST_EVENT"\nenv | grep -c PASS\nexit 3\n')
    (folder / "greet").chmod(0o755)
    allow(site, "installed")
    assert site.wait_for_end(start(site, script))["error_key"] == "scripts.agent_refuses"
    greeted = site.wait_for_end(start(site, installed))
    assert (greeted["error_key"], greeted["detail"]["exit_code"]) == ("scripts.failed", 3)
    assert site.admin.log_lines(greeted["id"])[-2:] == ["greetings 0 manual", "0"]

    allow(site, "any")
    fine = site.wait_for_end(start(site, script, parameters={"word": "hush-hush"}))
    assert fine["status"] == "completed", fine
    assert "hello ***" in site.admin.log_lines(fine["id"])

    mark, gate = site.folder / "begun", site.folder / "gate"
    slow = put(site, "slow", f"echo x >> {mark}; while [ ! -e {gate} ]; do sleep 0.1; done; echo over\n")
    number = start(site, slow)
    wait_until(mark.exists, what="the script has begun")
    site.agent.kill()
    site.service.kill()
    site.bring_up()
    gate.touch()
    ended = site.wait_for_end(number)
    assert ended["status"] == "completed", ended
    assert mark.read_text() == "x\n"
    assert "over" in site.admin.log_lines(number)


def test_a_schedule_runs_scripts_on_the_agent_of_its_repository(site: AgentSite) -> None:
    allow(site, "any")
    before, after = put(site, "before", "exit 75\n"), put(site, "after", "echo $HOLDFAST_RESULT\n")
    steps = [
        {"kind": "script", "script_id": before["id"]},
        {"kind": "backup"},
        {"kind": "script", "script_id": after["id"], "when": "after"},
        {"kind": "script", "script_id": after["id"], "when": "after", "run_on": "success"},
    ]
    body = {"name": "nightly", "cron_expression": "0 0 29 2 *", "steps": steps}
    targets = {"targets": {"repository_ids": [site.repository["id"]]}}
    created = site.admin.post("/api/schedules/", json={**body, **targets})
    assert created.status_code == 201, created.text
    row = site.admin.post(f"/api/schedules/{created.json()['id']}/run", json={}).json()["runs"][0]

    def settled() -> dict[str, Any] | None:
        found: dict[str, Any] = site.admin.get(f"/api/schedules/runs/{row['id']}").json()
        return found if found["settled_at"] else None

    ended = wait_until(settled, what="the run is settled")
    assert (ended["outcome"], ended["reason"]) == ("skipped", "script_declined")
    assert [one["status"] for one in ended["steps"]] == ["skipped", "skipped", "completed", "skipped"]
    assert "skipped" in site.admin.log_lines(ended["steps"][2]["operation_id"])
