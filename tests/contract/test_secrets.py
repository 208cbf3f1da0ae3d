"""Planted secrets appear nowhere: not in responses, not in files, not in the list of processes."""

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.processes import all_pids, processes_naming
from tests.support.running import Running, Services
from tests.support.service import Client, free_port
from tests.support.trees import contents_below

THIS_RUN = os.urandom(4).hex()
"""Another run on the same machine plants its own secrets, which this run must not find."""
ADMIN_PASSWORD = f"planted-Pelican-admin-password-{THIS_RUN}"
USER_PASSWORD = f"planted-Puffin-user-password-{THIS_RUN}"
NEW_PASSWORD = f"planted-Plover-new-password-{THIS_RUN}"
WRONG_PASSWORD = f"planted-Petrel-wrong-password-{THIS_RUN}"
PASSPHRASE = f"planted-Partridge-passphrase-{THIS_RUN}"
IMPORTED = "planted-Parrot-imported-passphrase"
WRONG_PASSPHRASE = f"planted-Pigeon-wrong-passphrase-{THIS_RUN}"
CHANGED = "planted-Peacock-changed-passphrase"
REMOTE_PASSWORD = f"planted-Pipit-remote-password-{THIS_RUN}"
REMOTE_TOKEN = "planted-Ptarmigan-remote-token"
GIVEN_ONCE = {"access_token", "token", "ticket", "login_challenge_token"}
"""Fields of responses whose purpose is to hand a secret to the caller."""


@dataclass
class Planted:
    """The secrets by name, and every response."""

    running: Running
    secrets: dict[str, str] = field(default_factory=dict)
    answers: list[tuple[str, str]] = field(default_factory=list)

    def client(self) -> Client:
        return Client(base_url=self.running.process.url, event_hooks={"response": [self._note]})

    def _note(self, answer: httpx2.Response) -> None:
        answer.read()
        text = answer.text
        if text and answer.headers.get("Content-Type") == "application/json":
            text = json.dumps(self._without_what_was_asked_for(answer.json()), ensure_ascii=False)
        self.answers.append((f"{answer.request.method} {answer.request.url.path}", f"{dict(answer.headers)} {text}"))

    def _without_what_was_asked_for(self, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        for name in GIVEN_ONCE & set(body):
            if body[name]:
                self.secrets[f"{name} {len(self.secrets)}"] = body[name]
        return {name: value for name, value in body.items() if name not in GIVEN_ONCE}

    def forms(self) -> Iterator[tuple[str, bytes]]:
        """Yield each secret in plain text and in the encodings that would still reveal it."""
        for name, secret in self.secrets.items():
            plain = secret.encode()
            yield name, plain
            yield f"{name} in hex", plain.hex().encode()
            yield f"{name} in base64", base64.b64encode(plain).rstrip(b"=")[:-1]

    def found_in(self, content: bytes, *, but: tuple[str, ...] = ()) -> list[str]:
        return [name for name, form in self.forms() if form in content and name not in but]

    # --- places ---------------------------------------------------------------------------------------------------

    def assert_not_in_files(self) -> list[Path]:
        """Search the data folder, the service's own output, and the notes about engine calls."""
        folder = self.running.process.data_dir
        looked_at = []
        outside = ((path, path.read_bytes()) for path in folder.parent.iterdir() if path.is_file())
        for path, content in chain(contents_below(folder), outside):
            expected = ("the key of the vault",) if path == folder / "secret.key" else ()
            assert self.found_in(content, but=expected) == [], path
            looked_at.append(path)
        return looked_at

    def assert_not_in_processes(self) -> None:
        """The admin's password is in the service's environment, where the operator set it, and nowhere else."""
        service = self.running.process.process
        assert service is not None
        for pid in all_pids():
            for name in ("cmdline", "environ"):
                own = pid == service.pid and name == "environ"
                try:
                    content = Path(f"/proc/{pid}/{name}").read_bytes()
                except OSError:
                    continue
                assert self.found_in(content, but=("the admin's password",) if own else ()) == [], (pid, name)

    def assert_not_in_answers(self) -> None:
        for request, text in self.answers:
            assert self.found_in(text.encode()) == [], request


@pytest.fixture(scope="module")
def planted(services: Services) -> Planted:
    running = services.new(HOLDFAST_ADMIN_PASSWORD=ADMIN_PASSWORD)
    secrets = {
        "the admin's password": ADMIN_PASSWORD,
        "a user's password": USER_PASSWORD,
        "a new password": NEW_PASSWORD,
        "a wrong password": WRONG_PASSWORD,
        "a passphrase": PASSPHRASE,
        "an imported passphrase": IMPORTED,
        "a wrong passphrase": WRONG_PASSPHRASE,
        "a changed passphrase": CHANGED,
        "a remote's password": REMOTE_PASSWORD,
        "a remote's token": REMOTE_TOKEN,
        "the key of the vault": (running.process.data_dir / "secret.key").read_text().strip(),
    }
    planted = Planted(running, secrets)
    running.admin = planted.client().login("admin", ADMIN_PASSWORD)
    return planted


def test_secrets_do_not_leak_into_responses_files_or_processes(planted: Planted) -> None:
    running, admin = planted.running, planted.running.admin
    use_accounts(planted)
    source = running.new_source()
    repository = running.new_repository(encryption="repokey-blake2", passphrase=PASSPHRASE, source_paths=[source])
    import_repositories(planted)
    try_a_remote(planted)

    while_running(planted, repository)
    restore(planted, repository)
    failed = fail(planted, repository)

    assert failed["error_key"] == "engine.passphrase_wrong"
    read_everything(planted, repository)
    assert admin.post("/api/auth/logout").status_code == 204
    planted.assert_not_in_answers()
    planted.assert_not_in_files()
    planted.assert_not_in_processes()
    assert len(planted.secrets) >= 14, "tokens and tickets are among them"
    assert len(planted.answers) > 40


def test_the_search_finds_a_planted_secret(planted: Planted) -> None:
    """A search that cannot find anything would accept everything."""
    assert planted.found_in(f"…{PASSPHRASE}…".encode()) == ["a passphrase"]
    assert planted.found_in(base64.b64encode(PASSPHRASE.encode())) == ["a passphrase in base64"]
    written = planted.running.process.data_dir / "planted"
    written.write_text(CHANGED)
    try:
        with pytest.raises(AssertionError, match="planted"):
            planted.assert_not_in_files()
    finally:
        written.unlink()


def use_accounts(planted: Planted) -> None:
    running, admin = planted.running, planted.running.admin
    user = running.new_user("viewer", password=USER_PASSWORD)
    client = planted.client()
    refused = client.post("/api/auth/login", data={"username": user["username"], "password": WRONG_PASSWORD})
    assert refused.status_code == 401
    client.login(user["username"], USER_PASSWORD)
    change = {"current_password": USER_PASSWORD, "new_password": NEW_PASSWORD}
    assert client.post("/api/auth/change-password", json=change).status_code == 200
    weak = {"username": {"password": WRONG_PASSWORD}, "password": [WRONG_PASSWORD], "role": WRONG_PASSWORD}
    assert admin.post("/api/users", json=weak).status_code == 422
    token = running.account_token()
    assert planted.client().get("/api/operations/", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    assert admin.post("/api/events/ticket").status_code == 200


def import_repositories(planted: Planted) -> None:
    running, admin = planted.running, planted.running.admin
    path = running.new_path("imported")
    running.outside.init(path, IMPORTED)
    body = {"name": "imported", "path": str(path), "index_mode": "off"}

    wrong = admin.post("/api/repositories/import", json={**body, "passphrase": WRONG_PASSPHRASE})
    assert (wrong.status_code, wrong.json()["detail"]["key"]) == (422, "engine.passphrase_wrong")
    right = admin.post("/api/repositories/import", json={**body, "passphrase": IMPORTED})
    assert right.status_code == 201, right.text
    refused = admin.put(f"/api/repositories/{right.json()['id']}", json={"passphrase": WRONG_PASSPHRASE})
    assert refused.json()["detail"]["key"] == "engine.passphrase_wrong"


def try_a_remote(planted: Planted) -> None:
    admin = planted.running.admin
    options = {"url": f"http://127.0.0.1:{free_port()}", "pass": REMOTE_PASSWORD, "bearer_token": REMOTE_TOKEN}
    made = admin.post("/api/rclone/remotes", json={"name": "planted", "provider": "webdav", "options": options})
    assert made.status_code == 201, made.text
    place = f"/api/rclone/remotes/{made.json()['id']}"
    assert admin.put(place, json={"options": {"user": [REMOTE_PASSWORD]}}).status_code == 422
    assert admin.post(f"{place}/test").json()["ok"] is False
    assert admin.get(place).json()["secret_options"] == ["bearer_token", "pass"]


def while_running(planted: Planted, repository: dict[str, Any]) -> None:
    """Search while the engine is running, with its spool and an open log."""
    running = planted.running
    missing = str(running.new_path("missing"))
    with running.held_backup({**repository, "source_paths": [missing, *repository["source_paths"]]}) as (_, gate):
        assert len(processes_naming(str(gate.path))) >= 1
        planted.assert_not_in_processes()
        looked_at = planted.assert_not_in_files()
        names = {path.name for path in looked_at}
        assert {"command.json", "holdfast.db", "holdfast.db-wal"} <= names
        assert any(path.suffix == ".log" and "logs" in path.parts for path in looked_at)


def restore(planted: Planted, repository: dict[str, Any]) -> None:
    running, admin = planted.running, planted.running.admin
    archive = admin.get("/api/backup/jobs", params={"repository_id": repository["id"]}).json()["jobs"][0][
        "archive_name"
    ]
    destination = running.new_folder("restored")
    body = {"repository_id": repository["id"], "archive": archive, "destination": str(destination), "paths": []}
    assert admin.post("/api/restore/preview", json=body).status_code == 200
    job_id = admin.post("/api/restore/start", json=body).json()["job_id"]
    assert admin.wait_for_end(job_id)["status"].startswith("completed")
    assert list(destination.rglob("file-*"))


def fail(planted: Planted, repository: dict[str, Any]) -> dict[str, Any]:
    """Change the passphrase without the service; the error it then reports must not contain the stored one."""
    running, admin = planted.running, planted.running.admin
    running.outside.change_passphrase(repository["path"], PASSPHRASE, CHANGED)
    failed = admin.wait_for_end(admin.start_backup(repository))
    mended = admin.put(f"/api/repositories/{repository['id']}", json={"passphrase": CHANGED})
    assert mended.status_code == 200, mended.text
    return failed


def read_everything(planted: Planted, repository: dict[str, Any]) -> None:
    admin = planted.running.admin
    for path in ("/api/audit", "/api/users", "/api/settings/tokens", "/api/repositories/", "/api/operations/queue"):
        assert admin.get(path).status_code == 200
    assert admin.get(f"/api/repositories/{repository['id']}/key").status_code == 200
    for item in admin.get("/api/operations/").json()["items"]:
        admin.operation(item["id"])
        admin.log_lines(item["id"])
        admin.get(f"/api/activity/{item['type']}/{item['id']}/logs/download")
