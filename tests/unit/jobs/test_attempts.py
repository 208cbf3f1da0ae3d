"""The frame around each attempt at a job, and how the job bodies handle an unclear end."""

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backup_engine.command import Command
from backup_engine.requests import InvalidRequest, RepositoryLocation
from backup_jobs.bodies import BODIES, Body, attempt
from backup_jobs.endings import Completed, Ended, Failed, Stopped, TryAgain
from backup_jobs.engine_host import EngineHost
from backup_jobs.host import Interrupted, Step
from backup_jobs.work import EvidenceUnknown, Work
from backup_protocol import BackupBlock, Block, CheckBlock, DeleteBlock, JobKind, PruneBlock
from tests.support.scripted_host import INTERRUPTED, NoSources, ScriptedHost, an_engine, id_of, listing, work_on

FAILING = 2


def delete_of(host: ScriptedHost, archive: str = "monday") -> Ended:
    return attempt(
        BODIES[JobKind.ARCHIVE_DELETE], work_on(host, DeleteBlock(archive=archive, archive_id=id_of(archive)))
    )


def raising(error: Exception) -> Body:
    def run(work: Work[Any]) -> Ended:
        raise error

    return Body(run)


def test_an_interrupted_check_is_tried_again() -> None:
    ended = attempt(BODIES[JobKind.REPOSITORY_CHECK], work_on(ScriptedHost({"check": INTERRUPTED}), CheckBlock()))

    assert isinstance(ended, TryAgain)
    assert ended.error_key == "operations.interrupted"


def test_a_job_interrupted_while_it_looks_at_the_repository_is_tried_again() -> None:
    ended = delete_of(ScriptedHost({"look": INTERRUPTED}))

    assert isinstance(ended, TryAgain)


def test_a_repository_that_cannot_be_queried_leads_to_another_attempt() -> None:
    ended = attempt(raising(EvidenceUnknown("engine.locked", "Somebody has it.")), work_on(ScriptedHost({}), Block()))

    assert ended == TryAgain("engine.locked", "Somebody has it.", 2.0)


def test_a_request_that_the_engine_refuses_fails_with_its_key() -> None:
    ended = attempt(raising(InvalidRequest("No.")), work_on(ScriptedHost({}), Block()))

    assert isinstance(ended, Failed)
    assert (ended.error_key, ended.message) == (InvalidRequest.key, "No.")


def test_a_cancellation_keeps_the_results_of_earlier_attempts() -> None:
    host = ScriptedHost({}, attempt=2, earlier={"prune": [{"archive": "a", "id": "1"}]})
    host.cancelled = True

    ended = attempt(BODIES[JobKind.REPOSITORY_PRUNE], work_on(host, PruneBlock(policy={"keep_last": 1})))

    assert ended == Stopped(details={"prune": [{"archive": "a", "id": "1"}]})


def test_an_archive_missing_on_a_later_attempt_is_not_reported_as_deleted_without_evidence() -> None:
    ended = delete_of(ScriptedHost({"look": listing("tuesday")}, attempt=2))

    assert isinstance(ended, Failed)
    assert ended.error_key == "archives.gone"


def test_an_archive_that_an_earlier_attempt_may_have_removed_is_reported_as_deleted() -> None:
    first = delete_of(ScriptedHost({"look": listing("monday"), "delete": INTERRUPTED, "evidence": INTERRUPTED}))
    assert isinstance(first, TryAgain)

    second = delete_of(ScriptedHost({"look": listing("tuesday")}, attempt=2, earlier=first.details))

    assert isinstance(second, Completed)
    assert second.details["deleted"] == [id_of("monday")]


def test_an_interrupted_deletion_is_completed_if_the_archive_is_gone_from_the_repository() -> None:
    ended = delete_of(ScriptedHost({"look": listing("monday"), "delete": INTERRUPTED, "evidence": listing()}))

    assert isinstance(ended, Completed)
    assert ended.return_code is None
    assert ended.details["by_evidence"] is True


def test_a_deletion_that_fails_after_the_archive_is_gone_is_completed_with_warnings() -> None:
    ended = delete_of(ScriptedHost({"look": listing("monday"), "delete": FAILING, "evidence": listing()}))

    assert isinstance(ended, Completed)
    assert ended.warned


class KilledEngine(EngineHost):
    """A real host whose engine ends by a signal."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, threading.Event(), threading.Event(), 1.0)

    attempt = 1
    earlier: dict[str, Any] = {}  # noqa: RUF012 -- never changed

    def _write(self, lines: Sequence[str]) -> None: ...

    def log(self, *lines: str) -> None: ...

    def report(self, **progress: Any) -> None: ...

    def cancel(self) -> "KilledEngine":
        self._cancelled.set()
        return self


def test_a_cancellation_after_the_end_does_not_change_the_outcome(tmp_path: Path) -> None:
    command = Command(("/bin/sh", "-c", "kill -TERM $$"), {"PATH": "/usr/bin:/bin"})
    with pytest.raises(Interrupted):
        KilledEngine(tmp_path / "1").step("create", command)

    with pytest.raises(Interrupted):
        KilledEngine(tmp_path / "1").cancel().step("create", command)


def test_work_that_ended_unwatched_has_the_end_time_of_its_engine(tmp_path: Path) -> None:
    """For every kind of job, on the service and on agents: the time of the record counts, not that of the restart."""
    command = Command(("/bin/sh", "-c", "exit 0"), {"PATH": "/usr/bin:/bin"})
    KilledEngine(tmp_path / "1").step("check", command)
    record = tmp_path / "1" / "check" / "exit.json"
    kept = json.loads(record.read_bytes())
    record.write_text(json.dumps({**kept, "finished_at": kept["finished_at"] - 3600}))

    host = KilledEngine(tmp_path / "1")
    host.step("check", command)

    assert host.ended_at().timestamp() - (kept["finished_at"] - 3600) < 3500


class Measured(ScriptedHost):
    """A host whose shim measured the space where the engine ran."""

    def step(self, name: str, command: Command, **more: Any) -> Step:
        step = super().step(name, command, **more)
        return replace(step, exit=replace(step.exit, free_bytes=7, total_bytes=9))


@pytest.mark.parametrize("said", [None, FAILING])
def test_a_failed_backup_reports_the_space_that_the_shim_measured(said: int | None) -> None:
    host = Measured({"create": said, "evidence": listing()})
    block = BackupBlock(archive_name="one", source_paths=("/srv",), compression="lz4", comment="holdfast:key")
    work = Work(host, an_engine(), RepositoryLocation("/srv/repository"), block, NoSources())
    ended = attempt(BODIES[JobKind.BACKUP_CREATE], work)

    assert isinstance(ended, Failed)
    assert ended.details["storage"] == {"free_bytes": 7, "total_bytes": 9}
