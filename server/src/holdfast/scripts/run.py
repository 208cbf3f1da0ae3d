"""The operation kind `script_execution`: run a script of the library, once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from sqlalchemy.orm import Session

from backup_engine.command import Machine
from backup_engine.frozen import frozen
from backup_jobs import script
from backup_protocol import JobKind, ScriptBlock
from holdfast.access.caller import Caller
from holdfast.errors import NotFound, Unprocessable
from holdfast.operations.context import Context
from holdfast.operations.job_work import JobReport, JobWork, NothingToDo
from holdfast.operations.kinds import Kind, failed_when_interrupted
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.operations.queue import Subject
from holdfast.operations.status import Status
from holdfast.operations.step_rules import Step
from holdfast.repositories import store as repositories
from holdfast.repositories.job_kinds import report_of
from holdfast.repositories.location import SshMachines, runs_on
from holdfast.scripts import environment, errors, library, parameters, store
from holdfast.scripts.kept_secrets import KeptSecrets
from holdfast.scripts.models import StoredScript
from holdfast.scripts.schemas import ScriptParams, ScriptStep, Where

DECLINED = "script_declined"
NOT_WANTED = "result_not_wanted"
SECRETS_GONE = "scripts.secrets_gone"


@frozen
class Execution:
    """Runs scripts, and provides their rules as steps of schedules."""

    secrets: parameters.Secrets
    machines: SshMachines

    def kind(self) -> Kind:
        return Kind(
            name=store.KIND,
            category="script",
            access=None,
            limit_group="script",
            params=ScriptParams,
            run=self.run,
            on_interrupted=failed_when_interrupted,  # never reached: the body handles interruptions inside `run`
            present=present,
            agent=JobWork(
                JobKind.SCRIPT_RUN, self.block, conclude, opens_repository=False, secrets=self.secrets_of_job
            ),
            step_rules=StepsOfScripts(self.secrets),
        )

    def run(self, context: Context) -> Outcome | TryAgain:
        params = context.params
        assert isinstance(params, ScriptParams)
        operation = context.operation
        try:
            with context.database.reading() as session:
                block = self.block(session, operation)
                secrets = self.secrets.read(session, params.secret_id)
        except NothingToDo as reason:
            return Outcome(Status.SKIPPED, skip_reason=reason.reason)
        machine = self._machine(context, params)
        if secrets is None:
            sentence = (
                "The script's secret parameters can no longer be decrypted. Set them again where the script is used."
            )
            return Outcome(Status.FAILED, SECRETS_GONE, sentence)
        named = {parameters.variable(name): value for name, value in secrets.items()}
        ended = script.execute(context, block, script.command_of(block, named, machine))
        with context.database.reading() as session:
            return conclude(session, operation, report_of(ended))

    def _machine(self, context: Context, params: ScriptParams) -> Machine | None:
        """Return the ssh machine that is to run the script; None for the service's machine.

        Raise Unprocessable if there is no such machine.
        """
        if params.where == "service":
            return None
        operation = context.operation
        with context.database.reading() as session:
            repository = repositories.get(session, operation.repository_id or 0)
        connection_id = runs_on(repository) if repository is not None and params.where == "ssh" else None
        if connection_id is None:
            raise errors.wrong_place(params.where, operation.repository_name or "")
        machine = self.machines.machine(connection_id)
        if machine.python is None:
            raise Unprocessable(
                "scripts.machine_without_python",
                f"Scripts need Python 3.9 or newer on {machine.name}. Install it and test the connection again.",
                machine=machine.name,
            )
        return machine

    def block(self, session: Session, operation: Operation) -> ScriptBlock:
        """Return the job's input. Raise NothingToDo if the script does not run after such a result, or NotFound."""
        params = ScriptParams.model_validate(operation.params)
        backup = None
        if params.event == "after":
            is_once = params.scope == "once"
            backup = store.backup_of(session, operation) if not is_once else None
            result = backup.status if backup is not None else params.result
            is_declined = not is_once and store.declined(session, operation, DECLINED)
            if params.run_on != "always" and (is_declined or environment.word_of(result) != params.run_on):
                raise NothingToDo(NOT_WANTED)
        version = store.version(session, params.script_id, params.version)
        if version is None:
            raise NotFound(
                "scripts.version_not_found",
                "The script has no such version.",
                script_id=params.script_id,
                version=params.version,
            )
        return ScriptBlock(
            name=params.script_name,
            event=params.event,
            content=None if params.installed_as else version.content,
            installed_as=params.installed_as,
            interpreter=tuple(params.interpreter),
            arguments=tuple(params.arguments),
            timeout_seconds=params.timeout_seconds,
            variables=environment.variables(operation, params, backup),
            environment={
                parameters.variable(name): {"secret_ref": _reference(params, name)}
                for name in self.secrets.read(session, params.secret_id) or ()
            },
        )

    def secrets_of_job(self, session: Session, operation: Operation) -> dict[str, str]:
        """Return the secrets that the agent receives with the job, by the references in it."""
        params = ScriptParams.model_validate(operation.params)
        values = self.secrets.read(session, params.secret_id) or {}
        return {_reference(params, name): value for name, value in values.items()}


def _reference(params: ScriptParams, name: str) -> str:
    return f"script-{params.secret_id}-{name}"


def conclude(session: Session, operation: Operation, report: JobReport) -> Outcome:
    """Return the operation's outcome, based on its host's report."""
    del session
    params = ScriptParams.model_validate(operation.params)
    details = report.details
    result = {
        "script_version": params.version,
        "exit_code": _number(details.get("exit_code")),
        "signal": _number(details.get("signal")),
    }
    if report.status is Status.FAILED and report.error_key == script.DECLINED and params.event == "before":
        return Outcome(Status.SKIPPED, skip_reason=DECLINED, result=result, ended_at=report.ended_at)
    key, message = report.error_key, report.error_message
    if report.status is Status.FAILED and key == "operations.interrupted":
        key, message = script.INTERRUPTED, script.INTERRUPTED_SENTENCE
    return Outcome(report.status, key, message, result=result, warnings=report.warnings, ended_at=report.ended_at)


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31 else None


def present(operation: Operation) -> dict[str, Any]:
    result = operation.result or {}
    names = ("script_id", "script_name", "version", "where", "event")
    told = {name: operation.params.get(name) for name in names}
    return {**told, "exit_code": result.get("exit_code"), "signal": result.get("signal")}


def params_of(stored: StoredScript, **more: Any) -> dict[str, Any]:
    """Return the parameters of an operation that runs the current version of the script."""
    wanted = ScriptParams(
        where=cast("Where", stored.where),
        script_id=stored.id,
        script_name=stored.name,
        version=stored.version,
        interpreter=stored.interpreter,
        arguments=stored.arguments,
        installed_as=stored.installed_as,
        timeout_seconds=stored.timeout_seconds,
        **more,
    )
    return wanted.model_dump(mode="json", exclude_none=True)


def subject_of(params: Mapping[str, Any], subject: Subject) -> Subject:
    """Return the subject with its executor: the agent runs scripts meant for agents, a runner all others."""
    if params.get("where") == "agent" and subject.executor == "agent":
        return subject
    return replace(subject, executor="runner", machine_id=None)


@frozen
class StepsOfScripts:
    """See `StepRules`."""

    secrets: parameters.Secrets

    def stored(
        self, session: Session, caller: Caller, steps: Sequence[Step], previous: Sequence[Step]
    ) -> list[dict[str, Any]]:
        wanted = [ScriptStep.model_validate(step) for step in steps]
        before = [ScriptStep.model_validate(step) for step in previous]
        kept: dict[int, dict[str, Any]] = {}
        for script_id in dict.fromkeys(step.script_id for step in wanted):
            script = library.require_usable(session, caller, script_id)
            numbers = [number for number, step in enumerate(wanted) if step.script_id == script_id]
            names = KeptSecrets(script, partial(self.secrets.read, session)).of(
                [wanted[number] for number in numbers], [step for step in before if step.script_id == script_id]
            )
            for number, name in zip(numbers, names, strict=True):
                kept[number] = self._stored(session, script, wanted[number], name)
        return [kept[number] for number in range(len(wanted))]

    def _stored(self, session: Session, script: StoredScript, wanted: ScriptStep, kept: str | None) -> dict[str, Any]:
        """Return the stored form of a step. `kept` names its secrets so far, which stay unless they are given again."""
        _require_place(wanted, script)
        known = self.secrets.read(session, kept) or {}
        plain, secret = parameters.checked(script.parameters, wanted.parameters, known)
        name = kept if secret == known else self.secrets.keep(session, secret)
        result = wanted.model_dump(mode="json", include={"kind", "when", "script_id"})
        result |= {"on_failure": wanted.on_failure} if wanted.when == "before" else {"run_on": wanted.run_on}
        result |= {"scope": wanted.scope} if wanted.scope == "once" else {}
        return {**result, "parameters": plain, **({"secret_id": name} if name else {})}

    def params(self, session: Session, step: Step) -> dict[str, Any]:
        wanted = ScriptStep.model_validate(step)
        found = store.get(session, wanted.script_id)
        _require_place(wanted, found)
        known = self.secrets.read(session, wanted.secret_id) or {}
        plain, _ = parameters.checked(found.parameters, wanted.parameters, known)
        return params_of(
            found,
            event=wanted.when,
            on_failure=wanted.on_failure,
            run_on=wanted.run_on,
            parameters=plain,
            secret_id=wanted.secret_id,
            scope=wanted.scope,
            due_at=step.get("due_at"),
            result=step.get("result"),
        )

    def subject(self, params: Mapping[str, Any], subject: Subject) -> Subject:
        return subject_of(params, subject)


def _require_place(step: ScriptStep, script: StoredScript) -> None:
    """Raise Unprocessable for a once-only script that would run on the repositories' machines."""
    if step.scope == "once" and script.where != "service":
        raise Unprocessable(
            "scripts.once_elsewhere",
            "A script that runs once for all repositories runs on the service's machine. Choose a script with where: "
            "service, or scope: each.",
            where=script.where,
        )
