"""One agent job, run in the test's own process with a real engine: what `Worker` does, but without a service."""

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from backup_agent.engines import Engines
from backup_agent.host import AgentHost
from backup_agent.job_folder import JobFolder
from backup_agent.job_payload import open_repository, payload_of
from backup_agent.job_work import AgentPlace, ReceiveWork
from backup_agent.jobs import KINDS
from backup_agent.places import Places
from backup_jobs.endings import Ended
from backup_protocol import Job, RestoreBlock


class SentStream:
    """The stream that a service would send for a job."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def read(self, size: int, /) -> bytes:
        block = self._content[self._at : self._at + size]
        self._at += len(block)
        return block

    def cut(self) -> None:
        self._at = len(self._content)


def run_restore(
    folder: Path,
    repository: Path,
    archive: str,
    destination: Path,
    *,
    program: Path,
    major: int = 1,
    stream: bytes | None = None,
    machine: Mapping[str, Any] | None = None,
    **more: Any,
) -> Ended:
    """Run `restore.extract`, or with a stream `restore.receive`, and return how the restore ends.

    `machine` contains further arguments of `AgentPlace`.
    """
    kind = "restore.extract" if stream is None else "restore.receive"
    block = {"archive": archive, "destination": str(destination), "overwrite": "replace", **more}
    payload = {
        "schema_version": 1,
        "job_kind": kind,
        "repository": {
            "repository_id": 1,
            "engine_version": major,
            "repository_path": str(repository),
            "encryption": "none",
            "unencrypted_ok": True,
        },
        "restore": block,
    }
    read = payload_of(payload, {})
    opened = open_repository(read, lambda _name: None)
    places = Places(folder / "config", folder / "state")
    job = JobFolder.make(places.jobs, Job(1, "restore", "2026-11-16T00:00:00+00:00", payload))
    host = AgentHost(job, 1, opened.environment, threading.Event(), 5.0)
    engine = Engines(places, {major: str(program)}).engine(major) if stream is None else None

    def open_stream() -> AbstractContextManager[Any]:
        return nullcontext(SentStream(stream or b""))

    assert isinstance(read.block, RestoreBlock)
    place = AgentPlace(host, read.block, **(machine or {}))
    work = ReceiveWork(host, engine, opened.location, read.block, known_place=place, open_stream=open_stream)
    return KINDS[read.job_kind].body.run(work)
