"""The operation kind `restore`: restore files of an archive to this machine, an ssh machine or an agent's machine."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.protected_places import ProtectedPlaces
from backup_jobs.bodies import Body, attempt
from backup_jobs.paths import to_json
from backup_jobs.restore import extract, private_tree
from backup_jobs.restore.endings import NOTHING
from backup_jobs.restore.place import RestorePlace, RestoreWork
from backup_jobs.restore.private_tree import PrivateTree
from backup_protocol import JobKind, RestoreBlock
from holdfast.operations.context import Context
from holdfast.operations.job_work import JobReport, JobWork, reported
from holdfast.operations.kinds import Kind, retry_when_interrupted
from holdfast.operations.locks import Access
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.repositories import archived_paths
from holdfast.repositories import store as repositories
from holdfast.repositories.job_kinds import concluded
from holdfast.repositories.location import Opener
from holdfast.repositories.own_places import ServicePlaces
from holdfast.repositories.work import RepositoryWork
from holdfast.restore import start, store
from holdfast.restore.grants import rule as grants
from holdfast.restore.schemas import RestoreParams
from holdfast.restore.ssh_restore import MachinePlace, MachineRestore

MOST_NAMED = 1000
COUNTS = frozenset({*(name for name, value in NOTHING.items() if isinstance(value, int)), "files", "bytes"})
LISTS = frozenset(name for name, value in NOTHING.items() if isinstance(value, list))


def kind(opener: Opener) -> Kind:
    job = JobWork(JobKind.RESTORE_EXTRACT, partial(block, opener.own_places), conclude)
    return Kind(
        name=store.KIND,
        category="restore",
        limit_group="restore",
        access=Access.READ,
        params=RestoreParams,
        run=lambda context: run(opener, job, context),
        on_interrupted=retry_when_interrupted,  # never reached: the body handles interruptions inside `run`
        present=present,
        agent=job,
        retry=partial(start.retry, places=opener.own_places),
    )


def present(operation: Operation) -> dict[str, Any]:
    params = RestoreParams.model_validate(operation.params)
    return {**params.model_dump(mode="json"), "result": operation.result}


def block(places: ServicePlaces, session: Session, operation: Operation) -> RestoreBlock:
    """Return the job's input. Raise Forbidden if the requesting user has lost the right to this restore."""
    repository = repositories.get(session, operation.repository_id or 0)
    if repository is not None and operation.executor == "agent":
        grants.require_still(session, operation, repository)
    params = RestoreParams.model_validate(operation.params)
    roots = archived_paths.outermost(archived_paths.inside_archive(params.paths))
    on_agent = operation.executor == "agent"
    return RestoreBlock(
        archive=params.archive,
        archive_id=params.engine_id or None,
        paths=tuple(map(to_json, roots)),
        destination=params.destination,
        restore_layout=params.restore_layout,
        overwrite=params.overwrite,
        dry_run=params.dry_run,
        without=tuple(params.without or ()),
        repositories=tuple(repositories.paths_on_agent(session, operation.machine_id)) if on_agent else (),
        service_places=tuple(places.identities()) if on_agent else (),
    )


def run(opener: Opener, job: JobWork, context: Context) -> Outcome | TryAgain:
    """Run the restore. Raise Forbidden if a grant was withdrawn while the restore waited."""
    assert isinstance(context.params, RestoreParams)
    opened = RepositoryWork.open(opener, context)
    with context.database.reading() as session:
        if not context.has_begun(extract.LIST):
            grants.require_still(session, context.operation, opened.repository)
        wanted = block(opener.own_places, session, context.operation)
    if context.params.destination_type == "ssh":
        there = MachinePlace(opener, opened, context.params)
        work = RestoreWork(context, opened.engine, opened.location, wanted, known_place=there)
        restore = partial(MachineRestore, there)
        body = Body(lambda work: restore(work).run(), lambda work, cut: restore(work).interrupted(cut))
        return concluded(job, context, attempt(body, work))
    here = ServicePlace(opener, context)
    work = RestoreWork(context, opened.engine, opened.location, wanted, known_place=here)
    return concluded(job, context, attempt(Body(extract.run, extract.interrupted), work))


class ServicePlace(RestorePlace):
    """This machine as a place for restores."""

    def __init__(self, opener: Opener, context: Context) -> None:
        self._context = context
        with context.database.reading() as session:
            self._guard = opener.own_places.guard(session)

    @property
    def key(self) -> str:
        return self._context.operation.uuid

    @property
    def guard(self) -> ProtectedPlaces:
        return self._guard

    def require(self, destination: bytes) -> None:
        private_tree.inspect(destination)

    def remove_leftovers(self, private: PrivateTree) -> None:
        with private_tree.opened(private.base) as base:
            found = private_tree.leftovers(base)
            with self._context.database.reading() as session:
                over = store.ended(session, found)
            for uuid in over:
                private_tree.remove_folder(base, found[uuid])


def conclude(session: Session, operation: Operation, report: JobReport) -> Outcome:
    """Return the outcome with the reported counts, and nothing that was not reported."""
    del session
    params = RestoreParams.model_validate(operation.params)
    counts = {name: value for name, value in report.details.items() if _is_count(name, value)}
    named = {name: _named(value) for name, value in report.details.items() if name in LISTS}
    result = {**({"dry_run": True} if params.dry_run else NOTHING), **counts, **named}
    outcome = reported(report, result=result)
    if report.return_code is None and outcome.result is not None:
        return replace(outcome, result={k: v for k, v in outcome.result.items() if k != "return_code"})
    return outcome


def _is_count(name: str, value: Any) -> bool:
    return name in COUNTS and isinstance(value, int) and not isinstance(value, bool)


def _named(value: Any) -> list[dict[str, str]]:
    items = value if isinstance(value, list) else []
    return [
        {key: str(item[key]) for key in ("path", "path_b64", "reason") if key in item}
        for item in items[:MOST_NAMED]
        if isinstance(item, Mapping)
    ]
