"""The operation kind `package_install`: run a package's command, once."""

import os
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.command import Command
from backup_engine.environment import SEARCH_PATH
from backup_jobs.host import Interrupted
from holdfast.operations.context import Context, PlainResult
from holdfast.operations.end_time import end_of_work
from holdfast.operations.kinds import Kind
from holdfast.operations.locks import Access
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.operations.status import Status
from holdfast.packages import start, store
from holdfast.packages.schemas import InstallParams

STEP = "install"
LANE = "packages"


def kind() -> Kind:
    return Kind(
        name=store.KIND,
        category="system",
        activity_word="package",
        access=Access.CHANGE,
        lock_key=LANE,
        params=InstallParams,
        run=run,
        on_interrupted=interrupted,
        present=present,
        retry=start.retry,
    )


def present(operation: Operation) -> dict[str, Any]:
    return {
        "package_id": operation.params.get("package_id"),
        "exit_code": (operation.result or {}).get("exit_code"),
    }


def environment() -> dict[str, str]:
    """The complete environment. Nothing is inherited, because the service's own variables may contain secrets."""
    return {
        "PATH": SEARCH_PATH,
        "HOME": os.path.expanduser("~"),  # noqa: PTH111 -- also works for a user without a home
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "DEBIAN_FRONTEND": "noninteractive",
    }


def run(context: Context) -> Outcome | TryAgain:
    params = context.params
    assert isinstance(params, InstallParams)
    command = Command(tuple(params.install_command), environment(), working_directory="/")
    return _conclude(params, context.plain_step(STEP, command))


def interrupted(context: Context, interruption: Interrupted) -> Outcome:
    """Fail: the installation may be half done, and only a person can decide to repeat it."""
    params = context.params
    assert isinstance(params, InstallParams)
    if context.is_cancelled():
        return _failed(params, Outcome(Status.CANCELLED, result={"exit_code": None}))
    ending = Outcome(Status.FAILED, "operations.interrupted", interruption.sentence(), result={"exit_code": None})
    return _failed(params, ending)


def _conclude(params: InstallParams, step: PlainResult) -> Outcome:
    code = step.exit.code
    result = {"exit_code": code}
    if step.exit.exec_error is not None:
        sentence = f"The program {params.install_command[0]} could not be started: {_words(step.exit.exec_error)}"
        return _failed(params, Outcome(Status.FAILED, "packages.not_started", sentence, result={"exit_code": None}))
    if code == 0:
        record = partial(_installed, package_id=params.package_id)
        return Outcome(Status.COMPLETED, result=result, record=record)
    if step.was_cancelled:
        return _failed(params, Outcome(Status.CANCELLED, result=result))
    return _failed(
        params,
        Outcome(Status.FAILED, "packages.install_failed", f"The command ended with exit code {code}.", result=result),
    )


def _words(exec_error: str) -> str:
    """Return the text of the system's error without the number at its beginning."""
    return exec_error.partition(" ")[2] or exec_error


def _failed(params: InstallParams, ending: Outcome) -> Outcome:
    record = partial(_not_installed, package_id=params.package_id)
    return Outcome(ending.status, ending.error_key, ending.error_message, result=ending.result, record=record)


def _installed(session: Session, *, package_id: int) -> None:
    store.note(session, package_id, status="installed", installed_at=end_of_work(session))


def _not_installed(session: Session, *, package_id: int) -> None:
    store.note(session, package_id, status="failed")
