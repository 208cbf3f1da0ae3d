"""Calls: a request is forwarded to the agent of the repository, and the output it sends becomes the response."""

import json
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from backup_protocol.calls import ERRORS, OUTPUT
from backup_protocol.frames import END, HERE, frame
from tests.contract.agents.agent import EVERYTHING, PASSPHRASE, Agent, Machines
from tests.contract.agents.evidence import listed
from tests.contract.fields import error_of
from tests.support.service import PATIENCE, wait_until

ARCHIVES = {"archives": [], "encryption": {"mode": "repokey"}, "repository": {"id": "00", "location": "/x"}}
CALL = {"id", "payload"}


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def ask(pool: ThreadPoolExecutor, machines: Machines, repository: dict[str, Any]) -> "Future[Any]":
    """Send a request that waits for the engine's list of archives."""
    address = f"/api/repositories/{repository['id']}/archives/live"
    return pool.submit(lambda: machines.admin.get(address))


def offered(agent: Agent) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        answer = agent.client.get("/api/agents/jobs/poll", params={"wait": 5}).json()
        return answer["calls"][0] if "calls" in answer else None

    return wait_until(found, what="a call is offered")


def send(agent: Agent, call: str, *frames: bytes) -> Any:
    return agent.client.post(f"/api/agents/calls/{call}/output", content=b"".join(frames))


@contextmanager
def output(pool: ThreadPoolExecutor, agent: Agent, call: str) -> Iterator[Callable[[bytes], None]]:
    """Send the output of a call as a stream; yield a function that sends a frame."""
    frames: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    sent = pool.submit(lambda: agent.client.post(f"/api/agents/calls/{call}/output", content=iter(frames.get, b"")))
    try:
        yield frames.put
    finally:
        frames.put(b"")
        sent.result(PATIENCE)


def end(code: int = 0) -> bytes:
    return frame(END, json.dumps({"code": code}).encode())


def test_a_call_is_offered_to_the_agent_and_its_output_becomes_the_response(
    machines: Machines, pool: ThreadPoolExecutor
) -> None:
    agent = machines.agent()
    repository = machines.repository(agent)
    waiting = ask(pool, machines, repository)
    call = offered(agent)

    assert set(call) == CALL
    payload = call["payload"]
    assert (payload["schema_version"], payload["job_kind"]) == (1, "engine.call")
    assert payload["repository"]["repository_path"] == repository["path"]
    assert payload["call"]["method"] == "list_archives"
    assert list(payload["secrets"].values()) == [{"value": PASSPHRASE}]
    sent = send(agent, call["id"], frame(HERE, b""), frame(OUTPUT, json.dumps(ARCHIVES).encode()), end())
    assert (sent.status_code, sent.json()) == (200, {"id": call["id"]})
    answer = waiting.result(PATIENCE)
    assert (answer.status_code, answer.json()) == (200, {"archives": [], "source": "engine"})
    assert agent.client.get("/api/agents/jobs/poll").json() == {"jobs": []}


def test_errors_of_the_engine_of_an_agent_are_reported_like_local_ones(
    machines: Machines, pool: ThreadPoolExecutor
) -> None:
    agent = machines.agent()
    waiting = ask(pool, machines, machines.repository(agent))
    line = {"type": "log_message", "levelname": "ERROR", "name": "borg", "msgid": "PassphraseWrong", "message": "no"}
    send(agent, offered(agent)["id"], frame(ERRORS, json.dumps(line).encode() + b"\n"), end(2))

    assert error_of(waiting.result(PATIENCE)) == (422, "engine.passphrase_wrong")


def test_the_output_of_a_call_may_be_larger_than_any_other_body(machines: Machines, pool: ThreadPoolExecutor) -> None:
    agent = machines.agent()
    waiting = ask(pool, machines, machines.repository(agent))
    content = json.dumps(ARCHIVES).encode() + b" " * 3_000_000
    sent = send(agent, offered(agent)["id"], frame(OUTPUT, content), end())

    assert sent.status_code == 200, sent.text
    assert waiting.result(PATIENCE).json()["archives"] == []


def test_incomplete_output_of_a_call_is_discarded(machines: Machines, pool: ThreadPoolExecutor) -> None:
    agent = machines.agent()
    waiting = ask(pool, machines, machines.repository(agent))
    send(agent, offered(agent)["id"], frame(OUTPUT, json.dumps(ARCHIVES).encode()))

    assert error_of(waiting.result(PATIENCE)) == (503, "engine.interrupted")


def test_a_call_is_offered_again_if_the_connection_broke_before_any_output(
    machines: Machines, pool: ThreadPoolExecutor
) -> None:
    agent = machines.agent()
    waiting = ask(pool, machines, machines.repository(agent))
    send(agent, offered(agent)["id"], frame(HERE, b""))
    again = offered(agent)
    send(agent, again["id"], frame(OUTPUT, json.dumps(ARCHIVES).encode()), end())

    assert waiting.result(PATIENCE).status_code == 200


def test_only_the_agent_of_the_repository_is_offered_a_call_or_may_serve_it(
    machines: Machines, pool: ThreadPoolExecutor
) -> None:
    agent, other = machines.agent(), machines.agent()
    waiting = ask(pool, machines, machines.repository(agent))
    call = offered(agent)
    frames = frame(OUTPUT, json.dumps({**ARCHIVES, "archives": [{"forged": True}]}).encode()), end()

    assert other.client.get("/api/agents/jobs/poll").json() == {"jobs": []}
    assert error_of(send(other, call["id"], *frames)) == (404, "agents.call_over")
    stranger = machines.running.anonymous().post(f"/api/agents/calls/{call['id']}/output", content=b"x")
    user = machines.admin.post(f"/api/agents/calls/{call['id']}/output", content=b"x")
    assert (stranger.status_code, user.status_code) == (401, 401)
    send(agent, call["id"], frame(OUTPUT, json.dumps(ARCHIVES).encode()), end())
    assert waiting.result(PATIENCE).json()["archives"] == []


def test_a_call_is_confirmed_to_its_agent_while_its_caller_waits(machines: Machines, pool: ThreadPoolExecutor) -> None:
    agent, other = machines.agent(), machines.agent()
    waiting = ask(pool, machines, machines.repository(agent))
    call = offered(agent)["id"]
    path = f"/api/agents/calls/{call}/confirm"

    answers = [agent.client.post(path) for _ in range(2)]
    assert [(answer.status_code, answer.json()) for answer in answers] == [(200, {"id": call})] * 2
    assert error_of(other.client.post(path)) == (404, "agents.call_over")
    assert machines.admin.post(path).status_code == 401
    send(agent, call, frame(OUTPUT, json.dumps(ARCHIVES).encode()), end())
    assert waiting.result(PATIENCE).status_code == 200
    assert error_of(agent.client.post(path)) == (404, "agents.call_over")


def list_archives(agent: Agent, names: list[str]) -> None:
    """Answer the next call, which requests the list of archives."""
    call = offered(agent)
    assert call["payload"]["call"]["method"] == "list_archives"
    archives = [
        listed("", name, datetime(2026, 1, 1, tzinfo=UTC), f"{number:064x}") for number, name in enumerate(names)
    ]
    send(agent, call["id"], frame(OUTPUT, json.dumps({**ARCHIVES, "archives": archives}).encode()), end())


@pytest.mark.parametrize("is_confirmed", [False, True])
def test_a_cancelled_wipe_removes_archives_only_if_the_agent_was_allowed_to_before(
    machines: Machines, pool: ThreadPoolExecutor, is_confirmed: bool
) -> None:
    agent = machines.agent()
    repository = machines.repository(agent)
    place = f"/api/repositories/{repository['id']}"
    asked = pool.submit(lambda: machines.admin.post(f"{place}/wipe-preview", json={"run_compact": False}))
    list_archives(agent, ["one", "two"])
    seen = asked.result(PATIENCE).json()
    body = {
        "preview_id": seen["id"],
        "preview_fingerprint": seen["archive_fingerprint"],
        "confirmation_phrase": seen["confirmation_phrase"],
        "understood": True,
    }
    asked = pool.submit(lambda: machines.admin.post(f"{place}/wipe", json=body))
    list_archives(agent, ["one", "two"])
    job = asked.result(PATIENCE).json()["id"]
    list_archives(agent, ["one", "two"])
    call = offered(agent)
    assert call["payload"]["call"]["method"] == "delete_archive"

    confirm = f"/api/agents/calls/{call['id']}/confirm"
    with output(pool, agent, call["id"]) as send_frame:
        send_frame(frame(HERE, b""))
        if is_confirmed:
            assert agent.client.post(confirm).status_code == 200
        cancelled = pool.submit(lambda: machines.admin.post(f"{place}/wipe-jobs/{job}/cancel"))
        if is_confirmed:
            wait_until(lambda: agent.client.post(confirm).status_code == 404, what="the permission is withdrawn")
            send_frame(end(0))
        list_archives(agent, [] if is_confirmed else ["one", "two"])
        assert error_of(agent.client.post(confirm)) == (404, "agents.call_over")
    assert cancelled.result(PATIENCE).status_code == 200
    ended = machines.admin.get(f"{place}/wipe-jobs/{job}").json()
    assert (ended["status"], ended["deleted"]) == (("completed", ["one", "two"]) if is_confirmed else ("cancelled", []))


def test_a_path_below_calls_that_does_not_exist_is_not_mistaken_for_a_call_that_is_over(machines: Machines) -> None:
    """By this, agents recognise services that are older than a route."""
    answer = machines.agent().client.post(f"/api/agents/calls/1-{'0' * 32}/of-a-later-version")

    assert error_of(answer) == (404, "api.not_found")


@pytest.mark.parametrize("name", ["{agent}-" + "0" * 32, "999999-" + "0" * 32, "x", "%2e%2e%2fsecret.key", "{agent}-x"])
def test_output_for_a_call_without_a_waiting_request_returns_404(machines: Machines, name: str) -> None:
    agent = machines.agent()
    answer = send(agent, name.format(agent=agent.id), b"anything")

    assert answer.status_code == 404, answer.text


def test_a_disabled_agent_gets_no_calls(machines: Machines) -> None:
    agent = machines.agent()
    repository = machines.repository(agent)
    machines.admin.post(f"/api/managed-machines/agents/{agent.id}/disable")
    asked = machines.admin.get(f"/api/repositories/{repository['id']}/archives/live")

    assert error_of(asked) == (409, "agents.revoked")
    assert send(agent, f"{agent.id}-{'0' * 32}", b"x").status_code == 403


def test_a_call_to_an_agent_that_cannot_serve_it_is_refused_with_the_reason(machines: Machines) -> None:
    old = machines.agent(capabilities=[word for word in EVERYTHING if word != "engine.call"])
    without = machines.agent()
    repositories = [machines.repository(old), machines.repository(without)]
    without.heartbeat(engine_versions=[])
    silent = machines.agent(online=False)
    repositories.append(machines.repository(silent, ready=False))
    answers = [machines.admin.get(f"/api/repositories/{one['id']}/archives/live") for one in repositories]

    assert [error_of(answer) for answer in answers] == [
        (422, "agents.too_old"),
        (422, "engine.not_installed"),
        (503, "agents.offline"),
    ]


def test_a_waiting_poll_is_woken_by_a_call(machines: Machines, pool: ThreadPoolExecutor) -> None:
    agent = machines.agent()
    repository = machines.repository(agent)
    found: list[dict[str, Any]] = []
    polling = threading.Thread(
        target=lambda: found.append(agent.client.get("/api/agents/jobs/poll", params={"wait": 30}).json())
    )
    polling.start()
    waiting = ask(pool, machines, repository)
    polling.join(PATIENCE)

    assert found[0]["jobs"] == []
    send(agent, found[0]["calls"][0]["id"], frame(OUTPUT, json.dumps(ARCHIVES).encode()), end())
    assert waiting.result(PATIENCE).status_code == 200


def test_a_local_restore_reads_the_archive_through_calls_and_fails_like_the_remote_engine(
    machines: Machines, tmp_path: Path
) -> None:
    agent = machines.agent()
    repository = machines.repository(agent)
    body = {"repository_id": repository["id"], "archive": "gone", "destination": str(tmp_path / "made")}
    job = machines.admin.post("/api/restore/start", json=body).json()["job_id"]
    call = offered(agent)

    assert call["payload"]["call"]["method"] == "list_files"
    assert json.loads(call["payload"]["call"]["request"]) == {
        "archive": "gone",
        "excludes": [],
        "excluded_trees": [],
        "paths": [],
        "exact": True,
        "complete": False,
    }
    line = {
        "type": "log_message",
        "levelname": "ERROR",
        "name": "borg",
        "msgid": "Archive.DoesNotExist",
        "message": "no",
    }
    send(agent, call["id"], frame(ERRORS, json.dumps(line).encode() + b"\n"), end(13))
    ended = machines.admin.wait_for_end(job)
    assert ended["status"] == "failed", ended
    assert (ended["machine_id"], not (tmp_path / "made").exists()) == (agent.id, True)
