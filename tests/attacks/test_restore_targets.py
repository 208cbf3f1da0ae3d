"""An operator restores to the repository's own machine, or to folders that an admin has granted.

For them, other targets do not exist.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.contract.agents.agent import EVERYTHING, Machines
from tests.contract.fields import error_of
from tests.support.running import Running, Services
from tests.support.service import Client

NOT_THERE = 7_654_321
NOT_FOUND = (404, "restore.target_not_found")


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    services = Services(tmp_path_factory.mktemp("restore-targets"))
    yield Machines(services.get())
    services.stop()


@pytest.fixture
def running(machines: Machines) -> Running:
    return machines.running


@dataclass
class Operator:
    """An operator of one repository, whose engine runs on the service's machine."""

    running: Running
    user: dict[str, Any]
    client: Client

    def body(self, kind: str, machine_id: int | None, destination: str, **more: Any) -> dict[str, Any]:
        known = self.running.known
        return {
            "repository_id": known.repository["id"],
            "archive": self.running.admin.operation(known.job_id)["archive_name"],
            "destination": destination,
            "destination_type": kind,
            **({"destination_machine_id": machine_id} if machine_id is not None else {}),
            **more,
        }

    def tries(self, kind: str, machine_id: int | None, destination: str = "/etc", **more: Any) -> dict[str, Any]:
        """The responses to a start and a preview, by route."""
        body = self.body(kind, machine_id, destination, **more)
        return {word: self.client.post(f"/api/restore/{word}", json=body) for word in ("start", "preview")}

    def starts(self, kind: str, machine_id: int | None, destination: str, **more: Any) -> Any:
        """As `tries`, without the preview, which waits for a busy repository and for an agent that does not answer."""
        return self.client.post("/api/restore/start", json=self.body(kind, machine_id, destination, **more))

    def grant(self, kind: str, machine_id: int | None, folder: str, **more: Any) -> int:
        body = {"user_id": self.user["id"], "machine_type": kind, "folder": folder, **more}
        answer = self.running.admin.post("/api/restore-grants", json={**body, "machine_id": machine_id})
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])


@pytest.fixture
def operator(running: Running) -> Operator:
    user = running.new_user("operator")
    path = f"/api/users/{user['id']}/repositories/{running.known.repository['id']}"
    assert running.admin.put(path, json={"role": "operator"}).status_code == 200
    return Operator(running, user, running.client_of(user))


@pytest.fixture
def ssh_machine(running: Running) -> int:
    body = {"name": running.new_name("far"), "host": running.new_name("host") + ".invalid", "username": "root"}
    answer = running.admin.post("/api/ssh-connections", json=body)
    assert answer.status_code == 201, answer.text
    return int(answer.json()["id"])


def test_an_operator_cannot_restore_to_an_agent_and_cannot_tell_whether_it_exists(
    machines: Machines, operator: Operator
) -> None:
    online = machines.agent().id
    old = machines.agent(capabilities=[word for word in EVERYTHING if word != "restore.receive"]).id
    revoked = machines.agent().id
    machines.admin.post(f"/api/managed-machines/agents/{revoked}/revoke")

    answers = [
        answer for number in (online, old, revoked, NOT_THERE) for answer in operator.tries("agent", number).values()
    ]

    assert {error_of(answer) for answer in answers} == {NOT_FOUND}
    assert len({answer.text for answer in answers}) == 1, "the answers are the same to the letter"


def test_an_operator_cannot_restore_to_an_ssh_machine_and_cannot_tell_whether_it_exists(
    operator: Operator, ssh_machine: int
) -> None:
    answers = [answer for number in (ssh_machine, NOT_THERE) for answer in operator.tries("ssh", number).values()]

    assert {error_of(answer) for answer in answers} == {NOT_FOUND}
    assert len({answer.text for answer in answers}) == 1
    assert operator.tries("agent", NOT_THERE)["start"].text == answers[0].text


def test_an_operator_of_an_agents_repository_restores_only_to_that_agent(machines: Machines, running: Running) -> None:
    agent, other = machines.agent(), machines.agent()
    repository = machines.repository(agent)
    client = running.client_with_right(repository, "operator")
    body = {"repository_id": repository["id"], "archive": "any", "destination": "/srv/restored"}

    def tried(**more: Any) -> Any:
        return client.post("/api/restore/start", json={**body, **more})

    assert tried(destination_type="agent").status_code == 200
    assert tried(destination_type="agent", destination_machine_id=agent.id).status_code == 200
    assert error_of(tried(destination_type="agent", destination_machine_id=other.id)) == NOT_FOUND
    assert error_of(tried(destination_type="local")) == NOT_FOUND


def test_a_grant_permits_one_user_one_folder_of_one_machine(
    machines: Machines, running: Running, operator: Operator
) -> None:
    agent, other = machines.agent().id, machines.agent().id
    operator.grant("agent", agent, "/srv/restored/")

    def started(machine: int, destination: str) -> Any:
        return operator.starts("agent", machine, destination)

    assert started(agent, "/srv/restored").status_code == 200
    assert started(agent, "/srv//restored/./below").status_code == 200
    for destination in ("/srv", "/srv/restored-too", "/srv/restoredx/y", "/etc", "/"):
        assert error_of(started(agent, destination)) == NOT_FOUND, destination
    assert error_of(started(agent, "/srv/restored/../../etc")) == (422, "restore.bad_destination")
    assert error_of(started(other, "/srv/restored")) == NOT_FOUND
    stranger = running.client_with_right(running.known.repository, "operator")
    body = operator.body("agent", agent, "/srv/restored")
    assert error_of(stranger.post("/api/restore/start", json=body)) == NOT_FOUND


def test_a_grant_to_a_role_applies_only_to_users_with_that_role(
    running: Running, operator: Operator, ssh_machine: int
) -> None:
    body = {"role": "operator", "machine_type": "ssh", "machine_id": ssh_machine, "folder": "/srv"}
    assert running.admin.post("/api/restore-grants", json=body).status_code == 201

    answer = operator.starts("ssh", ssh_machine, "/srv/x")

    assert answer.status_code == 200, answer.text
    operator.client.post(f"/api/restore/cancel/{answer.json()['job_id']}")
    viewer = running.client_with_right(running.known.repository, "viewer")
    wanted = operator.body("ssh", ssh_machine, "/srv/x")
    assert error_of(viewer.post("/api/restore/preview", json=wanted)) == NOT_FOUND


def test_a_waiting_agent_restore_fails_when_its_grant_is_revoked(machines: Machines, operator: Operator) -> None:
    agent = machines.agent()
    grant = operator.grant("agent", agent.id, "/srv")
    job = operator.starts("agent", agent.id, "/srv/x").json()["job_id"]
    assert machines.admin.delete(f"/api/restore-grants/{grant}").status_code == 204

    assert agent.poll() == []

    ended = machines.admin.operation(job)
    assert (ended["status"], ended["error_key"]) == ("failed", "restore.not_granted")


def test_a_waiting_restore_of_a_runner_fails_when_its_grant_is_revoked(
    running: Running, operator: Operator, ssh_machine: int
) -> None:
    repository = running.new_repository()  # restores left by other tests wait for the shared one
    archive = running.admin.wait_for_end(running.admin.start_backup(repository))["archive_name"]
    right = f"/api/users/{operator.user['id']}/repositories/{repository['id']}"
    assert running.admin.put(right, json={"role": "operator"}).status_code == 200
    grant = operator.grant("ssh", ssh_machine, "/srv")
    with running.held_backup(repository):
        wanted = {"repository_id": repository["id"], "archive": archive}
        job = operator.starts("ssh", ssh_machine, "/srv/x", **wanted).json()["job_id"]
        assert running.admin.delete(f"/api/restore-grants/{grant}").status_code == 204

    ended = running.admin.wait_for_end(job)

    assert (ended["status"], ended["error_key"]) == ("failed", "restore.not_granted")


def test_grants_are_deleted_with_their_machine_or_user(
    machines: Machines, running: Running, operator: Operator, ssh_machine: int
) -> None:
    agent = machines.agent().id
    grants = {operator.grant("agent", agent, "/a"), operator.grant("ssh", ssh_machine, "/a")}
    own = operator.grant("local", None, "/a")

    def known() -> set[int]:
        return {grant["id"] for grant in running.admin.get("/api/restore-grants").json()["grants"]}

    assert grants | {own} <= known()
    assert running.admin.delete(f"/api/managed-machines/agents/{agent}").status_code == 204
    assert running.admin.delete(f"/api/ssh-connections/{ssh_machine}").status_code == 204
    assert known() & (grants | {own}) == {own}
    assert running.admin.delete(f"/api/users/{operator.user['id']}").status_code == 204
    assert own not in known()


def test_only_admins_manage_grants_and_changes_are_audited(running: Running, operator: Operator) -> None:
    body = {"role": "operator", "machine_type": "local", "folder": "/"}
    assert error_of(operator.client.post("/api/restore-grants", json=body)) == (403, "access.forbidden")
    assert error_of(operator.client.get("/api/restore-grants")) == (403, "access.forbidden")

    grant = operator.grant("local", None, "/srv")
    assert operator.grant("local", None, "/srv/") == grant, "the same grant is not given twice"
    assert error_of(operator.client.delete(f"/api/restore-grants/{grant}")) == (403, "access.forbidden")
    assert running.admin.delete(f"/api/restore-grants/{grant}").status_code == 204
    assert error_of(running.admin.delete(f"/api/restore-grants/{grant}")) == (404, "restore.grant_not_found")
    trail = running.admin.get("/api/audit", params={"limit": 50}).json()["entries"]
    mine = [entry["action"] for entry in trail if entry["object_id"] == str(grant) and "grant" in entry["action"]]
    assert sorted(mine) == ["restore_grant.created", "restore_grant.deleted"]


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"role": None}, (422, "restore.grant_unclear")),
        ({"user_id": 1}, (422, "restore.grant_unclear")),
        ({"role": None, "user_id": NOT_THERE}, (422, "restore.unknown_user")),
        ({"machine_id": 1}, (422, "restore.unsupported_target")),
        ({"machine_type": "ssh"}, (422, "restore.machine_missing")),
        ({"machine_type": "ssh", "machine_id": NOT_THERE}, (422, "restore.unknown_machine")),
        ({"machine_type": "agent"}, (422, "restore.agent_missing")),
        ({"machine_type": "agent", "machine_id": NOT_THERE}, (422, "restore.unknown_agent")),
        ({"folder": "srv"}, (422, "restore.bad_destination")),
        ({"folder": "/srv/../etc"}, (422, "restore.bad_destination")),
    ],
)
def test_an_invalid_grant_is_refused(running: Running, changes: dict[str, Any], refusal: tuple[int, str]) -> None:
    body = {"role": "operator", "machine_type": "local", "folder": "/srv", **changes}

    assert error_of(running.admin.post("/api/restore-grants", json=body)) == refusal


@pytest.mark.parametrize(
    ("destination", "more"),
    [
        ("/etc", {}),
        ("/etc/cron.d", {"restore_layout": "contents_only", "paths": ["tmp"]}),
        ("/usr/local/bin", {}),
        ("/root/.ssh", {}),
        ("/", {}),
        ("/", {"paths": ["etc/shadow"]}),
        ("/", {"paths": ["tmp"], "restore_layout": "contents_only"}),
        ("/var", {}),
        ("/var/spool", {"paths": ["cron/crontabs/root"]}),
    ],
)
def test_an_operator_cannot_become_root_by_restoring_over_system_folders(
    operator: Operator, destination: str, more: dict[str, Any]
) -> None:
    # A dry run is checked like any other restore, and is harmless if the rule is missing.
    answers = operator.tries("local", None, destination, dry_run=True, **more)

    assert {error_of(answer) for answer in answers.values()} == {NOT_FOUND}


def test_an_operator_may_restore_files_to_their_original_folder(operator: Operator) -> None:
    source = operator.running.known.repository["source_paths"][0]

    answers = operator.tries("local", None, "/", paths=[source], dry_run=True)

    assert {answer.status_code for answer in answers.values()} == {200}


def test_a_grant_permits_a_system_folder_of_the_services_machine(operator: Operator) -> None:
    operator.grant("local", None, "/etc/restored")

    assert operator.tries("local", None, "/etc/restored", dry_run=True)["preview"].status_code == 200
    assert error_of(operator.tries("local", None, "/etc")["preview"]) == NOT_FOUND
