"""The operation kind `check`: is the repository whole?"""

from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.events import Event, LogMessage
from backup_engine.parse import CHECK_FINISHED, parse_check_lines
from backup_engine.requests import CheckRequest, InvalidRequest
from holdfast.kit import clock
from holdfast.maintenance import on_agent
from holdfast.maintenance.progress import PhaseProgress
from holdfast.maintenance.schemas import CheckBody
from holdfast.operations.context import StepResult
from holdfast.operations.kinds import Kind, Outcome, TryAgain, again_when_interrupted
from holdfast.operations.models import Operation
from holdfast.operations.status import LockMode, Status
from holdfast.repositories import store
from holdfast.repositories.location import Opener
from holdfast.repositories.work import RepositoryWork, on_repository, readable, success_status, warnings_of

MOST_PROBLEMS = 1000
CONTENT = "check.verify_data"
SEGMENTS = {1: ("repository.check",), 2: ("check.index", "check.packs")}
ARCHIVES = {1: "check.rebuild_refcounts", 2: "check.rebuild_archives"}
"""How each major of the engine calls the phases of a check."""
PROBLEM_LEVELS = frozenset({"ERROR", "CRITICAL"})


def kind(opener: Opener) -> Kind:
    return Kind(
        name="check",
        category="maintenance",
        limit_group="maintenance",
        lock=LockMode.EXCLUSIVE,
        params=CheckBody,
        run=on_repository(opener, run),
        on_interrupted=again_when_interrupted,
        present=present,
        agent=on_agent.check_work(),
    )


def present(operation: Operation) -> dict[str, Any]:
    result = operation.result or {}
    return {name: result.get(name) for name in ("problems", "problem_count", "verdicts", "complete")}


def request_of(params: CheckBody) -> CheckRequest:
    return CheckRequest(max_duration=params.max_duration, verify_data=params.verify_data, repair=params.repair)


class _Findings:
    """What the engine says about the repository, in bounds: a ruined one has a line for each of its objects."""

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[Event] = []

    def hear(self, event: Event) -> None:
        if not isinstance(event, LogMessage):
            return
        if CHECK_FINISHED.match(event.message):
            self._kept.append(event)
        elif event.level in PROBLEM_LEVELS:
            self.count += 1
            if self.count <= MOST_PROBLEMS:
                self._kept.append(event)

    def result(self, params: CheckBody, step: StepResult) -> dict[str, Any]:
        told = parse_check_lines(self._kept, MOST_PROBLEMS)
        return {
            "problems": [readable(problem) for problem in told.problems],
            "problem_count": self.count,
            "verdicts": list(told.finished),
            "complete": params.max_duration is None,
            "verify_data": params.verify_data,
            "repair": params.repair,
            "return_code": step.exit.code,
        }


def run(work: RepositoryWork) -> Outcome | TryAgain:
    params = work.context.params
    assert isinstance(params, CheckBody)
    try:
        command = work.engine.check(work.location, request_of(params))
    except InvalidRequest as error:
        return Outcome(Status.FAILED, error.key, str(error))
    findings = _Findings()
    progress = PhaseProgress(work.context, phases(params, work.repository.engine_version))

    def hear(event: Event) -> None:
        progress.hear(event)
        findings.hear(event)

    return _conclude(work, params, findings, work.context.step("check", command, on_event=hear))


def phases(params: CheckBody, engine: int) -> tuple[str, ...]:
    if params.max_duration is not None:
        return SEGMENTS[engine]
    return (*SEGMENTS[engine], *((CONTENT,) if params.verify_data else ()), ARCHIVES[engine])


def _conclude(work: RepositoryWork, params: CheckBody, findings: _Findings, step: StepResult) -> Outcome | TryAgain:
    bad = work.ended_without_success(step)
    if isinstance(bad, TryAgain):
        return bad
    result = findings.result(params, step)
    if bad is not None:
        return Outcome(bad.status, bad.error_key, bad.error_message, result=result, warnings=bad.warnings)
    return Outcome(
        success_status(step),
        result=result,
        warnings=warnings_of(step.accumulator),
        record=partial(_note, repository_id=work.repository.id),
    )


def _note(session: Session, *, repository_id: int) -> None:
    store.note_evidence(session, repository_id, last_check=clock.now())
