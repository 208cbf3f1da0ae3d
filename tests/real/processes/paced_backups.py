"""Backups whose engine waits for the test, and what must hold when they end."""

from tests.support.installation import Installation
from tests.support.paced_engine import lines_by_run
from tests.support.processes import command_line
from tests.support.service import ServiceProcess

GRACE_SECONDS = 2
"""The time between the request to stop an engine and its kill, in the installation on SQLite."""


def key_of(installation: Installation, run: str) -> str:
    return next(found.key for found in installation.engine.runs() if found.id == run)


def is_there(pid: int) -> bool:
    return bool(command_line(pid))


def completed_with_one_start(installation: Installation, service: ServiceProcess, operation_id: int, run: str) -> None:
    """Release the engine; it must have started once and created one archive, and the log must have each line once."""
    with installation.engine.let_go(), installation.client(service) as client:
        ended = client.wait_for_end(operation_id)
        log = client.log_lines(operation_id)
    key = key_of(installation, run)
    assert (ended["status"], ended["attempt"]) == ("completed", 1), ended["error_message"]
    assert installation.engine.starts_of(key) == [run]
    assert installation.archives_with(key) == 1
    assert lines_by_run(log) == {run: list(range(1, installation.engine.said(run) + 1))}
