"""Scripts on the ssh machine that opens the repository."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.running import Running, Services
from tests.support.service import wait_until
from tests.support.sshd import Sshd, sshd

URL = "/api/scripts"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    services = Services(tmp_path_factory.mktemp("services"))
    yield services.get()
    services.stop()


def test_a_script_on_an_ssh_machine_runs_once_and_keeps_its_exit_code_despite_a_kill_of_the_service(
    running: Running, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with sshd(tmp_path_factory.mktemp("machine")) as machine:
        plays(running, machine)


def plays(running: Running, machine: Sshd) -> None:
    admin = running.admin
    connection = machine.connection(admin, running.new_name("connection"))
    repository = running.new_repository(execution_target="ssh", ssh_connection_id=connection)

    def run(content: str, **more: Any) -> int:
        body = {"name": running.new_name("script"), "content": content, "where": "ssh", **more}
        script = admin.post(f"{URL}/", json=body).json()
        asked = {"repository_id": repository["id"], "parameters": {"word": "hush-hush"} if "parameters" in more else {}}
        answer = admin.post(f"{URL}/{script['id']}/run", json=asked)
        assert answer.status_code == 200, answer.text
        number: int = answer.json()["job_id"]
        return number

    secret = [{"name": "word", "secret": True}]
    fine = admin.wait_for_end(
        run('echo "one $HOLDFAST_PARAM_WORD"; echo two >&2; echo $SSH_CONNECTION\n', parameters=secret)
    )
    assert fine["status"] == "completed", fine
    assert admin.log_lines(fine["id"])[1:] == ["one ***", "two", ""]
    for code in (2, 75, 126, 255):  # codes that ssh and the link use as well
        ended = admin.wait_for_end(run(f"exit {code}\n"))
        assert (ended["error_key"], ended["detail"]["exit_code"]) == ("scripts.failed", code)
    late = admin.wait_for_end(run("exec sleep 1000\n", timeout_seconds=1))
    assert late["error_key"] == "scripts.timed_out"

    mark, gate = running.new_path("begun"), running.new_path("gate")
    number = run(f"echo x >> {mark}; while [ ! -e {gate} ]; do sleep 0.1; done; echo over\n")
    wait_until(mark.exists, what="the script has begun")
    running.process.kill()
    running.process.restart()
    gate.touch()
    client = running.process.client().login()
    ended = client.wait_for_end(number)
    assert (ended["status"], mark.read_text()) == ("completed", "x\n"), ended
    assert "over" in client.log_lines(number)
