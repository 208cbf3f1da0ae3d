"""Which calls an agent runs, and which it refuses."""

import json
from typing import Any

import pytest

from backup_agent.calls import _request
from backup_agent.job_payload import UnsupportedJob
from backup_engine.requests import (
    ExtractRequest,
    ListFilesRequest,
    PruneRequest,
    ReadChunksRequest,
    RetentionPolicy,
    TryChunksRequest,
)
from backup_protocol import CallBlock, JobKind, Payload, RepositoryBlock, write


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
