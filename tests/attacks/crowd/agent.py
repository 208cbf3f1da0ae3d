"""An agent that has registered with a service in this process."""

from dataclasses import dataclass

from backup_protocol import AUTHORIZATION_HEADER
from tests.support.in_process import InProcess


@dataclass(frozen=True)
class EnrolledAgent:
    id: int
    agent_id: str
    headers: dict[str, str]
    admin: dict[str, str]


def enrolled(running: InProcess) -> EnrolledAgent:
    client, admin = running.client, running.login()
    token = client.post(
        "/api/managed-machines/enrollment-tokens", json={"name": "far", "expires_in_minutes": 10}, headers=admin
    ).json()
    body = {
        "enrollment_token": token["token"],
        "name": "far",
        "hostname": "far",
        "os": "linux",
        "arch": "x86_64",
        "agent_version": "1.0",
        "engine_versions": [],
        "capabilities": [],
    }
    answer = client.post("/api/agents/register", json=body)
    assert answer.status_code == 200, answer.text
    agent_id = answer.json()["agent_id"]
    found = client.get(f"/api/managed-machines/agents/{agent_id}", headers=admin).json()
    headers = {AUTHORIZATION_HEADER: f"Bearer {answer.json()['agent_token']}"}
    return EnrolledAgent(found["id"], agent_id, headers, admin)
