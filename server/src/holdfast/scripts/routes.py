"""HTTP for scripts. Administrators write them; operators run the ones released to them."""

from typing import Annotated, Any

from fastapi import Depends, Response
from sqlalchemy.orm import Session

from holdfast.access import audit
from holdfast.access.caller import AdminLoginOnly, AdminOnly, Caller, LoginOnly, SignedIn
from holdfast.access.idempotency import Once
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, Writing
from holdfast.api.router import router
from holdfast.errors import Unprocessable
from holdfast.kit.fields import RowId
from holdfast.operations import queue
from holdfast.operations.kinds import Kind, kind_named
from holdfast.operations.queue import Origin, Subject
from holdfast.operations.schemas import StartAnswer
from holdfast.operations.status import Trigger
from holdfast.repositories import agent_target
from holdfast.repositories import store as repositories
from holdfast.repositories.job_routes import starts
from holdfast.repositories.models import Repository
from holdfast.scripts import errors, library, parameters, present, store
from holdfast.scripts.library import LIBRARY, Library
from holdfast.scripts.models import StoredScript
from holdfast.scripts.run import params_of, subject_of
from holdfast.scripts.schemas import NewScript, RunScript, ScriptChange, ScriptDetail, ScriptList, Versions

routes = router("/api/scripts", "scripts")


TheLibrary = Annotated[Library, Depends(LIBRARY)]
TheKind = Annotated[Kind, Depends(kind_named(store.KIND))]


@routes.get("/", summary="List all scripts you may use")
def list_scripts(caller: SignedIn, session: Reading) -> ScriptList:
    is_admin = caller.role is Role.ADMIN
    found = store.every(session, for_operators=not is_admin) if caller.role >= Role.OPERATOR else []
    return ScriptList(scripts=present.scripts(session, found))


@routes.post("/", summary="Add a script", status_code=201, responses=documented(409))
def add_script(caller: AdminLoginOnly, wanted: NewScript, session: Writing, scripts: TheLibrary) -> ScriptDetail:
    """A script can run anything as the service's own user, so only an admin who has logged in may add one."""
    return present.script(session, scripts.add(session, caller, wanted), [], with_content=True)


@routes.get("/{script_id}", summary="A script", responses=documented(404))
def read_script(caller: SignedIn, script_id: RowId, session: Reading, scripts: TheLibrary) -> ScriptDetail:
    script = library.require_usable(session, caller, script_id)
    is_admin = caller.role is Role.ADMIN
    return present.script(session, script, _used_by(session, scripts, script_id, is_admin), with_content=is_admin)


def _used_by(session: Session, scripts: Library, script_id: int, is_admin: bool) -> list[dict[str, Any]]:
    """Return the schedules that use the script, by name; only for admins, who may see every schedule."""
    found = scripts.uses(session, script_id) if is_admin else []
    return list({use.schedule_id: use.shown() for use in found}.values())


@routes.put("/{script_id}", summary="Change a script", responses=documented(404, 409))
def change_script(
    caller: AdminLoginOnly, script_id: RowId, wanted: ScriptChange, session: Writing, scripts: TheLibrary
) -> ScriptDetail:
    """Changed content becomes a new version, which schedules use from their next run on.

    Queued runs are unaffected.
    """
    script = scripts.change(session, caller, script_id, wanted)
    return present.script(session, script, _used_by(session, scripts, script_id, True), with_content=True)


@routes.delete("/{script_id}", summary="Delete a script", status_code=204, responses=documented(404, 409))
def delete_script(caller: AdminOnly, script_id: RowId, session: Writing, scripts: TheLibrary) -> Response:
    """Its versions are kept. A script is not deleted while a schedule uses it, or while it is waiting or running."""
    scripts.delete(session, caller, script_id)
    return Response(status_code=204)


@routes.get("/{script_id}/versions", summary="List all versions of a script", responses=documented(404))
def list_versions(_caller: AdminOnly, script_id: RowId, session: Reading) -> Versions:
    store.get(session, script_id)
    return Versions(versions=[present.version(found) for found in store.versions(session, script_id)])


@starts(routes, "/{script_id}/run", "Run a script")
def run_script(
    caller: LoginOnly,
    script_id: RowId,
    wanted: RunScript,
    session: Writing,
    kind: TheKind,
    scripts: TheLibrary,
    once: Once,
) -> Any:
    """Operators must specify one of their repositories. Scripts for ssh machines and agents run on the machine that
    opens it.
    """
    script = library.require_usable(session, caller, script_id)
    repository = None
    if wanted.repository_id is not None:
        repository = repositories.require(session, caller, wanted.repository_id, Role.OPERATOR)
        queue.require_room(session, repository.id)
    elif script.where != "service" or caller.role is not Role.ADMIN:
        place = "agent" if script.where == "agent" else "ssh machine"
        raise Unprocessable(
            "scripts.repository_needed",
            f"Specify a repository: the script runs on the {place} that opens it.",
            where=script.where,
        )
    plain, secret = parameters.checked(script.parameters, wanted.parameters, {})

    def start() -> StartAnswer:
        params = params_of(script, parameters=plain, secret_id=scripts.secrets.keep(session, secret))
        subject = _subject(script, repository, params)
        origin = _origin(session, caller, script, repository)
        operation = queue.enqueue(session, kind, params, origin, subject=subject)
        details = {
            "script_id": script.id,
            "script": script.name,
            "version": script.version,
            "repository_id": repository.id if repository else None,
        }
        audit.note(session, caller, f"{kind.name}.started", "operation", operation.id, details)
        message = f"The script {script.name} is queued."
        return StartAnswer(job_id=operation.id, status=operation.status, message=message)

    return once(session, start)


def _subject(script: StoredScript, repository: Repository | None, params: dict[str, Any]) -> Subject | None:
    """Return the subject. Raise Unprocessable if the repository's machine is not of the kind that the script needs."""
    if repository is None:
        return None
    if script.where != "service" and repository.execution_target != script.where:
        raise errors.wrong_place(script.where, repository.name)
    return subject_of(params, repositories.subject(repository))


def _origin(session: Session, caller: Caller, script: StoredScript, repository: Repository | None) -> Origin:
    """Return the origin. Raise Conflict if the repository's agent takes no work."""
    if script.where == "agent" and repository is not None:
        awaited = agent_target.awaited_setup(session, repository)
        return Origin(Trigger.MANUAL, caller.user_id, caller.username, depends_on_id=awaited)
    return Origin(Trigger.MANUAL, caller.user_id, caller.username)
