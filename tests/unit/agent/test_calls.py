"""Which calls an agent runs, and which it refuses."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from backup_agent import calls
from backup_agent.calls import _Asked, _request, _Run
from backup_agent.client import Client, NoAnswer, NotAllowed, Unknown
from backup_agent.job_payload import UnsupportedJob
from backup_agent.runtime_api import RuntimeApi
from backup_engine.command import Command
from backup_engine.process import Spool
from backup_engine.requests import (
    ExtractRequest,
    ListFilesRequest,
    PruneRequest,
    ReadChunksRequest,
    RetentionPolicy,
    TryChunksRequest,
)
from backup_protocol import CallBlock, JobKind, Payload, RepositoryBlock, write
from backup_protocol.calls import CALL_OVER
from backup_protocol.frames import HERE, frame
from tests.support.service import PATIENCE, wait_until
from tests.unit.agent.in_test_service import Answer, in_test_service


def payload(method: str, request: str) -> Payload:
    return Payload(1, JobKind.ENGINE_CALL, RepositoryBlock(1, 1, "/r"), CallBlock({}, method, request))


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("list_files", ListFilesRequest("a", paths=("caf\udce9", "x\ny"), exact=True)),
        ("read_chunks", ReadChunksRequest(ids=("00" * 32, "11" * 32))),
        ("try_chunks", TryChunksRequest()),
        ("prune", PruneRequest(RetentionPolicy(keep_last=1), dry_run=True)),
        ("extract", ExtractRequest("a", stdout=True)),
        ("extract", ExtractRequest("a", dry_run=True)),
    ],
)
def test_a_request_arrives_unchanged(method: str, request_: Any) -> None:
    assert _request(payload(method, json.dumps(write(request_)))) == (method, request_)


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("create", "{}"),
        ("init", "{}"),
        ("__class__", "{}"),
        ("check", "{}"),
        ("list_files", "not JSON"),
        ("list_files", "{}"),
        ("list_files", json.dumps({"archive": 5})),
        ("prune", json.dumps(write(PruneRequest(RetentionPolicy(keep_last=1))))),
        ("extract", json.dumps(write(ExtractRequest("a", destination="/")))),
    ],
)
def test_changing_unknown_and_malformed_calls_are_refused(method: str, request_: str) -> None:
    with pytest.raises(UnsupportedJob):
        _request(payload(method, request_))


def refused(status: int, key: str) -> Answer:
    return Answer(status, {"detail": {"key": key, "message": "A sentence.", "params": {}}})


def run(folder: Path, answer: Answer, *, changes: bool) -> tuple[list[bytes], Exception | None]:
    """Run a call whose engine makes a file; return what was sent, and the reason if it ended early."""
    sent: list[bytes] = []
    with in_test_service(lambda _request: answer) as service:
        api = RuntimeApi(Client(service.url))
        call = _Run(Spool(folder / "spool"), threading.Event(), lambda: api.confirm_call("7-x"))
        command = Command(("touch", str(folder / "made")), {"PATH": "/usr/bin:/bin"})
        try:
            sent.extend(call.frames(lambda: _Asked(command, False, None, changes)))
        except (NoAnswer, NotAllowed, Unknown) as error:
            return sent, error
        finally:
            call.close()
    return sent, None


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refused(404, CALL_OVER), Unknown),
        (refused(403, "agents.revoked"), NotAllowed),
        (Answer(404, raw=b"<html>a proxy's page</html>"), NoAnswer),
        (Answer(503), NoAnswer),
    ],
)
def test_an_engine_changes_no_repository_unless_the_service_confirms_the_call(
    tmp_path: Path, answer: Answer, kind: type[Exception]
) -> None:
    sent, reason = run(tmp_path, answer, changes=True)

    assert isinstance(reason, kind)
    assert sent == [frame(HERE, b"")]
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("status", [404, 405])
def test_a_service_that_knows_no_confirmation_stops_no_call(tmp_path: Path, status: int) -> None:
    _, reason = run(tmp_path, refused(status, "api.not_found"), changes=True)

    assert reason is None
    assert (tmp_path / "made").exists()


def test_a_call_that_only_reads_starts_without_a_confirmation(tmp_path: Path) -> None:
    _, reason = run(tmp_path, refused(404, CALL_OVER), changes=False)

    assert reason is None
    assert (tmp_path / "made").exists()


class Watched:
    """A running call. `state` is how its confirmations are answered."""

    def __init__(self, folder: Path) -> None:
        self.spool = Spool(folder / "spool")
        self.state: Exception | None = None
        self.confirmations = 0
        self.call = _Run(self.spool, threading.Event(), self._confirm)
        self.reasons: list[tuple[Exception, bool]] = []
        """Why the call ended, and whether its engine was running."""

    def _confirm(self) -> None:
        self.confirmations += 1
        if self.state is not None:
            raise self.state

    def run(self, send: Callable[[Iterator[bytes]], Any], command: str) -> None:
        asked = _Asked(Command(("sh", "-c", command), {"PATH": os.environ["PATH"]}), False, None, False)
        try:
            send(self.call.frames(lambda: asked))
        except (NoAnswer, Unknown) as error:
            self.reasons.append((error, self.spool.is_alive()))
        finally:
            self.call.close()

    @contextmanager
    def running(self, send: Callable[[Iterator[bytes]], Any], command: str) -> Iterator[threading.Thread]:
        thread = threading.Thread(target=self.run, args=(send, command), daemon=True)
        thread.start()
        wait_until(self.spool.has_started, pause=0.01, what="the engine runs")
        yield thread
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert not self.spool.is_alive()


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(calls, "CONFIRM_EVERY_SECONDS", 0.02)
    monkeypatch.setattr(calls, "CONFIRM_AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(calls, "UNCONFIRMED_SECONDS", 0.2)
    monkeypatch.setattr(calls, "CUT_SECONDS", 0.2)
    return Watched(tmp_path)


@pytest.mark.parametrize("state", [NoAnswer("cut"), Unknown(404, CALL_OVER, "over"), NotAllowed(403, "x", "revoked")])
def test_an_engine_ends_although_the_link_accepts_no_more_output(watched: Watched, state: Exception) -> None:
    """After a cut without notice, the engine kept the repository locked for eleven minutes."""
    with socket.create_server(("localhost", 0)) as unread:
        client = Client(f"http://localhost:{unread.getsockname()[1]}")
        with watched.running(lambda frames: client.send("/x", frames, 660.0, watched.call.link), "cat /dev/zero"):
            paused_for = watched.confirmations + 20
            wait_until(lambda: watched.confirmations > paused_for, pause=0.01, what="the caller pauses for long")
            assert watched.spool.is_alive(), "a caller that pauses is still waiting"
            watched.state = state


def test_a_silent_engine_has_ended_before_its_link_when_nobody_waits_for_it(watched: Watched) -> None:
    with watched.running(list, "sleep 1000"):
        watched.state = Unknown(404, CALL_OVER, "over")
    assert [(type(error), was_running) for error, was_running in watched.reasons] == [(NoAnswer, False)]


def test_a_few_confirmations_without_an_answer_end_no_call(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "UNCONFIRMED_SECONDS", PATIENCE)
    with watched.running(list, "while [ ! -e ../go ]; do sleep 0.01; done"):
        watched.state = NoAnswer("busy")
        before = watched.confirmations
        wait_until(lambda: watched.confirmations > before + 1, pause=0.001, what="two attempts")
        watched.state = None
        before = watched.confirmations
        wait_until(lambda: watched.confirmations > before + 20, pause=0.01, what="many more")
        (watched.spool.folder.parent / "go").touch()
    assert watched.reasons == []
