"""A third-party agent, written from the contract alone, creates real backups."""

import os
import subprocess
from pathlib import Path

from tests.support.agents import enrollment_token
from tests.support.contract_agent import ContractAgent
from tests.support.engines import ENGINES
from tests.support.service import ServiceProcess, wait_until
from tests.support.warm_engines import warm_program

ENGINE = warm_program(ENGINES[max(ENGINES)])
PASSPHRASE = "of the foreign machine"


def test_an_agent_written_from_the_contract_alone_backs_up_an_existing_repository(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "BORG_PASSPHRASE": PASSPHRASE}
    repository = tmp_path / "repository"
    subprocess.run([ENGINE, "init", "-e", "repokey", repository], env=environment, check=True, capture_output=True)
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text("content")
    service = ServiceProcess(tmp_path / "data", {}).start()
    agent = ContractAgent(service.url, ENGINE, tmp_path)
    try:
        admin = service.client().login()
        public_id = agent.register(enrollment_token(admin))
        machine = admin.get(f"/api/managed-machines/agents/{public_id}").json()["id"]
        agent.start()
        body = {
            "name": "foreign",
            "path": str(repository),
            "execution_target": "agent",
            "agent_machine_id": machine,
            "passphrase": PASSPHRASE,
            "source_paths": [str(tmp_path / "source")],
        }
        made = admin.post("/api/repositories/import", json=body).json()
        assert made["setup_state"] == "unverified"

        ended = admin.wait_for_end(admin.start_backup(made))

        assert (ended["status"], ended["result"]["stats"]["nfiles"]) == ("completed", 1)
        assert ended["archive_name"] is None, "this agent does not know the name the engine made of the template"
        assert admin.get(f"/api/repositories/{made['id']}").json()["setup_state"] == "ready"
        assert admin.get("/api/operations/", params={"status": "pending"}).json()["items"] == []
        listed = subprocess.run(
            [ENGINE, "list", "--short", repository], env=environment, check=True, capture_output=True, text=True
        )
        assert len(listed.stdout.split()) == 1
        wait_until(lambda: admin.get(f"/api/managed-machines/agents/{machine}").json()["status"] == "online")
    finally:
        agent.stop()
        service.stop()
