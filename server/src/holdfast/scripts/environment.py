"""The environment variables of a script: a complete set, never inherited, and never including a passphrase."""

from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from holdfast.scripts.parameters import variable
from holdfast.scripts.schemas import ScriptParams

SUCCESS, WARNING, FAILURE = "success", "warning", "failure"


def word_of(status: str | None) -> str:
    """Return how a backup ended, as one of the words of `run_on`."""
    if status == Status.COMPLETED:
        return SUCCESS
    return WARNING if status == Status.COMPLETED_WITH_WARNINGS else FAILURE


def variables(operation: Operation, params: ScriptParams, backup: Operation | None) -> dict[str, str]:
    """Return all variables except those of the machine and the secret parameters. Unknown values are empty."""
    known = {
        "EVENT": params.event,
        "SCRIPT_NAME": params.script_name,
        "SCRIPT_VERSION": params.version,
        "SCHEDULE_ID": operation.schedule_id,
        "SCHEDULE_NAME": operation.schedule_name,
        "DUE_AT": params.due_at,
        "RUN_ID": operation.run_id,
        "OPERATION_ID": operation.id,
        "REPOSITORY_ID": operation.repository_id,
        "REPOSITORY_NAME": operation.repository_name,
        "REPOSITORY_PATH": operation.repository_path,
        "RESULT": backup.status if backup else params.result,
        "ERROR_KEY": backup.error_key if backup else None,
        "ARCHIVE_NAME": backup.archive_name if backup else None,
    }
    told = {f"HOLDFAST_{name}": "" if value is None else str(value) for name, value in known.items()}
    return {**told, **{variable(name): value for name, value in params.parameters.items()}}
