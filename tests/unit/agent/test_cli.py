"""The command line: help, messages and exit codes."""

import json
import stat
from pathlib import Path

import pytest

from backup_agent import config
from backup_agent.cli import main
from backup_agent.commands import NAMES
from backup_agent.places import find_places
from tests.unit.agent.in_test_service import Answer, Request, in_test_service

REGISTERED = {
    "agent_id": "agent-1",
    "agent_token": "bk_agent_secret",
    "server_time": "2026-11-15T00:00:00+00:00",
    "poll_interval_seconds": 15,
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKUP_AGENT_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.delenv("BACKUP_AGENT_STATE_DIR", raising=False)
    for major in (1, 2):
        monkeypatch.setenv(f"BACKUP_AGENT_BORG{major}", str(tmp_path / "no-engine"))


def register(url: str, *more: str) -> int:
    return main(["register", "--server", url, "--token", "bk_enroll_x", *more])


@pytest.mark.parametrize("command", NAMES)
def test_the_help_of_every_command_lists_its_exit_codes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])

    assert ended.value.code == 0
    assert "exit codes:" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "once", "unregister"])
def test_an_unregistered_machine_is_pointed_to_the_register_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command]) == 3
    assert "backup-agent register" in capsys.readouterr().err


def test_registering_describes_the_machine_and_stores_a_private_configuration(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with in_test_service(lambda _request: Answer(body=REGISTERED)) as service:
        assert register(f"{service.url}/", "--name", "my machine", "--max-jobs", "3") == 0
        assert register(service.url) == 1, "registered already"

    [request] = service.requests
    assert request.path == "/api/agents/register"
    assert {"hostname", "os", "arch", "agent_version", "engine_versions", "capabilities"} <= set(request.body)
    assert "bk_agent_secret" not in capsys.readouterr().out
    kept = config.load(find_places())
    assert (kept.credential, kept.agent_id, kept.max_jobs) == ("bk_agent_secret", "agent-1", 3)
    assert stat.S_IMODE(find_places().config_file.stat().st_mode) == 0o600


def test_a_refused_token_and_an_unreachable_service_have_their_own_exit_codes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    refusal = Answer(401, {"detail": {"key": "agents.enrollment_invalid", "message": "The token is not valid."}})
    with in_test_service(lambda _request: refusal) as service:
        assert register(service.url) == 5
        url = service.url
    assert register(url) == 4
    assert "The token is not valid." in capsys.readouterr().err
    assert not find_places().config_file.exists()


def test_the_token_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKUP_AGENT_TOKEN", "bk_enroll_hidden")
    with in_test_service(lambda _request: Answer(body=REGISTERED)) as service:
        assert main(["register", "--server", service.url]) == 0

    assert service.requests[0].body["enrollment_token"] == "bk_enroll_hidden"


def test_status_is_shown_as_text_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["registered"] is False
    with in_test_service(lambda _request: Answer(body=REGISTERED)) as service:
        register(service.url, "--name", "my machine")
    capsys.readouterr()

    assert main(["status", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["agent_id"], facts["last_heartbeat_at"], facts["engine_versions"]) == ("agent-1", None, [])
    assert main(["status"]) == 0
    text = capsys.readouterr().out
    assert "my machine (agent-1)" in text
    assert "never" in text


def test_once_reports_that_there_is_no_work_or_that_the_agent_was_revoked(capsys: pytest.CaptureFixture[str]) -> None:
    def script(request: Request) -> Answer:
        if request.path.endswith("/register"):
            return Answer(body=REGISTERED)
        if revoked:
            return Answer(403, {"detail": {"key": "agents.revoked", "message": "The agent was revoked."}})
        if request.path.endswith("/heartbeat"):
            return Answer(body={"server_time": REGISTERED["server_time"], "poll_interval_seconds": 15})
        return Answer(body={"jobs": []})

    revoked = False
    with in_test_service(script) as service:
        register(service.url)
        assert main(["once"]) == 0
        assert "No jobs to run" in capsys.readouterr().out
        revoked = True
        assert main(["once"]) == 5
    assert "revoked" in capsys.readouterr().err


def test_unregistering_notifies_the_service_and_removes_the_credential() -> None:
    with in_test_service(lambda _request: Answer(body=REGISTERED)) as service:
        register(service.url)
        assert main(["unregister"]) == 0
    assert service.paths()[-1] == "/api/agents/unregister"
    assert main(["unregister"]) == 3


def test_unregistering_without_the_service_needs_force() -> None:
    with in_test_service(lambda _request: Answer(body=REGISTERED)) as service:
        register(service.url)

    assert main(["unregister"]) == 4
    assert main(["unregister", "--force"]) == 0
    assert not find_places().config_file.exists()


def test_the_unit_can_be_printed_without_changing_anything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install-service", "--print"]) == 0
    assert "backup-agent" in capsys.readouterr().out
    assert main(["install-service"]) == 3, "a machine that is not registered gets no service"
