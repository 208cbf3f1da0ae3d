"""One line on a machine: the service's script installs and registers a working agent, and removes it again."""

import json
import os
import subprocess
import sys
from pathlib import Path

from backup_agent.install import delivery
from tests.support.agent_site import AgentSite
from tests.support.agents import enrollment_token


def machine_without_systemd(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that has all the usual programs except systemctl."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in map(Path, ("/usr/bin", "/bin")):
        for program in folder.iterdir():
            if program.name not in ("systemctl", "python3") and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    (programs / "python3").symlink_to(sys.executable)
    return {
        "PATH": str(programs),
        "HOME": str(tmp_path),
        "BACKUP_AGENT_CONFIG_DIR": str(tmp_path / "config"),
    }


def piped(script: str, environment: dict[str, str], *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["sh", "-s", "--", *options], input=script, env=environment, capture_output=True, text=True, check=False
    )


def test_the_install_script_installs_registers_and_removes_an_agent_without_systemd(
    site: AgentSite, tmp_path: Path
) -> None:
    script = site.admin.get("/agent/install.sh").text
    environment = machine_without_systemd(tmp_path)
    token = {"BACKUP_AGENT_TOKEN": enrollment_token(site.admin)}
    prefix = tmp_path / "program"
    before = {path.name for path in tmp_path.iterdir()}

    ran = piped(
        script,
        {**environment, **token},
        *("--server", site.service.url, "--prefix", str(prefix), "--name", "installed"),
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"Run it with: {prefix}/bin/backup-agent run" in ran.stdout
    installed = [str(prefix / "bin" / "backup-agent")]
    status = subprocess.run(
        [*installed, "status", "--json"], env=environment, capture_output=True, text=True, check=True
    )
    facts = json.loads(status.stdout)
    assert (facts["registered"], facts["name"]) == (True, "installed")
    once = subprocess.run([*installed, "once"], env=environment, capture_output=True, text=True, check=False)
    assert once.returncode == 0, once.stderr
    assert machines(site)["installed"] == "online"
    unit = subprocess.run([*installed, "install-service", "--print"], env=environment, capture_output=True, text=True)
    assert str(prefix) in unit.stdout

    removed = piped(script, environment, "--uninstall", "--prefix", str(prefix))

    assert removed.returncode == 0, removed.stdout + removed.stderr
    assert {path.name for path in tmp_path.iterdir()} == before, "nothing is left"
    assert machines(site)["installed"] == "disabled"


def machines(site: AgentSite) -> dict[str, str]:
    found = site.admin.get("/api/managed-machines/agents").json()["agents"]
    return {machine["name"]: machine["status"] for machine in found}


def test_the_piped_script_prints_its_help(tmp_path: Path) -> None:
    printed = piped(delivery.install_script().decode(), {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, "--help")

    assert printed.returncode == 0
    for option in ("--server", "--token", "--no-service", "--uninstall"):
        assert option in printed.stdout
    assert list(tmp_path.iterdir()) == []


def test_an_uninstall_refuses_to_remove_repository_keys(tmp_path: Path) -> None:
    keys = tmp_path / "config" / "state" / "engine" / ".config" / "borg" / "keys"
    keys.mkdir(parents=True)
    (keys / "a-key").write_text("BORG_KEY")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "BACKUP_AGENT_CONFIG_DIR": str(tmp_path / "config"),
    }

    refused = subprocess.run(
        [sys.executable, "-m", "backup_agent", "uninstall"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert refused.returncode != 0
    assert "a-key" in refused.stderr
    assert (keys / "a-key").exists()
