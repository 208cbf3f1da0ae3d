"""All statements on scripts."""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from holdfast.operations import pages
from holdfast.operations.models import Operation
from holdfast.scripts import errors
from holdfast.scripts.models import ScriptSecrets, ScriptVersion, StoredScript
from holdfast.storage.rows import find_row

KIND = "script_execution"


def get(session: Session, script_id: int) -> StoredScript:
    """Return the script. Raise NotFound."""
    script = find_row(session, StoredScript, script_id)
    if script is None or script.deleted_at is not None:
        raise errors.unknown(script_id)
    return script


def lock(session: Session, script_id: int) -> StoredScript:
    """Return the script, locked against changes until the transaction ends. Raise NotFound."""
    get(session, script_id)
    statement = select(StoredScript).where(StoredScript.id == script_id).with_for_update()
    script = session.scalars(statement.execution_options(populate_existing=True)).one()
    if script.deleted_at is not None:
        raise errors.unknown(script_id)
    return script


def every(session: Session, *, for_operators: bool) -> list[StoredScript]:
    statement = select(StoredScript).where(StoredScript.deleted_at.is_(None))
    if for_operators:
        statement = statement.where(StoredScript.operators_may_use)
    return list(session.scalars(statement.order_by(StoredScript.name, StoredScript.id)))


def require_unused(session: Session, name: str, but: int | None = None) -> None:
    """Raise Conflict if another script has this name."""
    statement = select(StoredScript.id).where(StoredScript.name == name, StoredScript.deleted_at.is_(None))
    found = session.scalars(statement).first()
    if found is not None and found != but:
        raise errors.name_taken(name)


def version(session: Session, script_id: int, number: int) -> ScriptVersion | None:
    return session.get(ScriptVersion, (script_id, number))


def newest(session: Session, scripts: Sequence[StoredScript]) -> dict[int, ScriptVersion]:
    """Return the newest version of each script."""
    statement = (
        select(ScriptVersion)
        .join(StoredScript, StoredScript.id == ScriptVersion.script_id)
        .where(ScriptVersion.version == StoredScript.version, StoredScript.id.in_([script.id for script in scripts]))
    )
    return {found.script_id: found for found in session.scalars(statement)}


def versions(session: Session, script_id: int) -> list[ScriptVersion]:
    statement = select(ScriptVersion).where(ScriptVersion.script_id == script_id)
    return list(session.scalars(statement.order_by(ScriptVersion.version.desc())))


def active_runs(session: Session, script_id: int) -> list[int]:
    """Return the ids of operations of the script that wait or run."""
    return [operation.id for operation in _active(session) if operation.params.get("script_id") == script_id]


def backup_of(session: Session, operation: Operation) -> Operation | None:
    """Return the newest backup of the same repository in the run that an operation belongs to."""
    statement = (
        select(Operation)
        .where(
            Operation.run_id == operation.run_id,
            Operation.repository_id == operation.repository_id,
            Operation.kind == "backup",
        )
        .order_by(Operation.id.desc())
        .limit(1)
    )
    return session.scalars(statement).first()


def declined(session: Session, operation: Operation, reason: str) -> bool:
    """Whether a script before the backup of the same run has declined the backup."""
    statement = select(Operation.id).where(
        Operation.run_id == operation.run_id,
        Operation.repository_id == operation.repository_id,
        Operation.kind == KIND,
        Operation.skip_reason == reason,
    )
    return session.scalars(statement.limit(1)).first() is not None


# Secrets --------------------------------------------------------------------------------------------------------------


def secrets(session: Session, name: str) -> ScriptSecrets | None:
    return session.scalars(select(ScriptSecrets).where(ScriptSecrets.uuid == name)).first()


def forget_secrets(session: Session, used: Collection[str], before: datetime) -> None:
    """Delete secrets that no step and no waiting or running operation refers to."""
    running = {str(operation.params.get("secret_id")) for operation in _active(session)}
    old = select(ScriptSecrets.id, ScriptSecrets.uuid).where(ScriptSecrets.created_at < before)
    gone = [row.id for row in session.execute(old) if row.uuid not in running and row.uuid not in used]
    for first in range(0, len(gone), 500):
        session.execute(delete(ScriptSecrets).where(ScriptSecrets.id.in_(gone[first : first + 500])))


def _active(session: Session) -> list[Operation]:
    found = pages.active(session, None, of_repositories_only=False)
    return [operation for operation in found if operation.kind == KIND]
