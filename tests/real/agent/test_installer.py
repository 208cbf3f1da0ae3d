"""One line on a machine: the script of the service installs and registers an agent that works."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.agent_site import AgentSite
from tests.support.agents import enrollment_token


def test_the_script_of_the_service_installs_and_registers_an_agent(site: AgentSite, tmp_path: Path) -> None:
    script = site.admin.get("/agent/install.sh")
    assert script.status_code == 200
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "BACKUP_AGENT_CONFIG_DIR": str(tmp_path / "config"),
        "BACKUP_AGENT_TOKEN": enrollment_token(site.admin),
    }
    prefix = tmp_path / "program"
    options = ["--server", site.service.url, "--prefix", str(prefix), "--name", "installed", "--no-service"]

    ran = subprocess.run(
        ["sh", "-s", "--", *options], input=script.text, env=environment, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    installed = [str(prefix / "bin" / "backup-agent")]
    status = subprocess.run(
        [*installed, "status", "--json"], env=environment, capture_output=True, text=True, check=True
    )
    facts = json.loads(status.stdout)
    assert (facts["registered"], facts["name"]) == (True, "installed")
    once = subprocess.run([*installed, "once"], env=environment, capture_output=True, text=True, check=False)
    assert once.returncode == 0, once.stderr
    machines = site.admin.get("/api/managed-machines/agents").json()["agents"]
    assert {machine["name"]: machine["status"] for machine in machines}["installed"] == "online"

    unit = subprocess.run([*installed, "install-service", "--print"], env=environment, capture_output=True, text=True)
    assert str(prefix) in unit.stdout
