"""Which calls an agent runs, and which it refuses."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

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
