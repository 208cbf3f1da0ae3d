"""Clients generated from the OpenAPI document log in, back up, filter a list and restore."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.running import PASSWORD, Running, Services

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "tests" / "clients"
GENERATOR = ROOT / ".boot" / "clients" / "bin"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    services = Services(tmp_path_factory.mktemp("services"))
    yield services.get()
    services.stop()


def used(running: Running, *command: str | Path, folder: Path) -> None:
    """Run a program that uses a generated client, and check that the service did what the program reports."""
    repository = running.new_repository()
    destination = running.new_folder("restored")
    arguments = (
        running.process.url,
        running.new_user("admin")["username"],
        PASSWORD,
        repository["path"],
        str(destination),
    )
    ended = subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    done = json.loads(ended.stdout)
    assert done["kind"] == "backup"
    assert running.admin.operation(done["job"])["repository_id"] == repository["id"]
    assert running.admin.wait_for_end(done["restore"])["status"] == "completed"
    assert any(path.is_file() for path in destination.rglob("*"))


def test_a_generated_python_client_works(running: Running, tmp_path: Path) -> None:
    document = tmp_path / "openapi.json"
    document.write_bytes(running.anonymous().get("/api/openapi.json").content)
    settings = tmp_path / "settings.yml"
    settings.write_text("post_hooks: []\n")  # a formatted client is no better
    generate = [GENERATOR / "openapi-python-client", "generate", "--path", document, "--meta", "none"]
    ended = subprocess.run(
        [*generate, "--config", settings, "--output-path", tmp_path / "generated"],
        env={**os.environ, "PATH": f"{GENERATOR}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    used(running, GENERATOR / "python", CLIENTS / "python_client.py", tmp_path, folder=tmp_path)


@pytest.mark.campaign
def test_a_generated_typescript_client_works(running: Running, tmp_path: Path) -> None:
    project = tmp_path / "typescript"
    shutil.copytree(CLIENTS / "typescript", project)
    (project / "openapi.json").write_bytes(running.anonymous().get("/api/openapi.json").content)
    for step in (
        ("npm", "ci", "--no-audit", "--no-fund"),
        ("npx", "openapi-typescript", "openapi.json", "--default-non-nullable", "false", "--output", "api.d.ts"),
        ("npx", "tsc", "--project", "."),
    ):
        ended = subprocess.run(step, cwd=project, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    used(running, "node", "built/use.js", folder=project)
