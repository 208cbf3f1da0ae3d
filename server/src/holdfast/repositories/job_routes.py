"""Routes shared by families of jobs, each declared in one line: start, status, lists, log and cancel."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import FileResponse
from pydantic import BaseModel
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access.caller import Caller, LoginOnly, signed_in
from holdfast.access.idempotency import Once, OnceRunner
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheDatabase, TheSettings, Writing
from holdfast.kit.fields import PageLimit, RowId
from holdfast.operations import pages
from holdfast.operations.cancel import cancel, waits_for_end
from holdfast.operations.job_status import page_of_jobs
from holdfast.operations.kinds import REGISTRY, Kind
from holdfast.operations.log_answers import PartOfLog, log_download
from holdfast.operations.models import Operation
from holdfast.operations.routes import Cursor
from holdfast.operations.schemas import CancelAnswer, LogAnswer, StartAnswer
from holdfast.operations.visible_operations import require
from holdfast.repositories import store
from holdfast.repositories.jobs import started
from holdfast.repositories.location import OPENER, Opener
from holdfast.storage.session import Database

LOG_FILE: dict[int | str, dict[str, Any]] = {
    **documented(404, 409),
    200: {"content": {"text/plain": {}}, "description": "The log."},
}
JobLimit = Annotated[int, Query(ge=1, le=500, description="Maximum number of jobs, newest first.")]


Route = TypeVar("Route", bound=Callable[..., Any])
Find = Callable[[Session, Caller, Role], Any]
"""Given the role that the caller needs, return the job named in the path. Raise NotFound or Forbidden."""
Cancel = Callable[[Database, Caller, Any], CancelAnswer]


class Present(Protocol):
    def __call__(self, session: Session, needs: Any, jobs: Sequence[Any], /, *, with_logs: bool) -> Sequence[BaseModel]:
        """Return the status payloads of the jobs."""
        ...


async def the_logs(settings: TheSettings) -> Path:
    return settings.logs_dir


def of_kind(kind: str) -> Callable[..., Awaitable[Find]]:
    async def operation_named(job_id: RowId) -> Find:
        return lambda session, caller, least: require(session, caller, job_id, least, kind)

    return operation_named


def starts(routes: APIRouter, path: str, summary: str) -> Callable[[Route], Route]:
    """Declare a route that starts a job and answers with the job's id."""
    return routes.post(path, summary=summary, responses=documented(404, 409), response_model=StartAnswer)


async def the_kinds(request: Request) -> Mapping[str, Kind]:
    return REGISTRY.of(request.app).kinds


@frozen
class JobStart:
    """What is needed to start a job. The caller has logged in."""

    caller: Caller
    session: Session
    kinds: Mapping[str, Kind]
    opener: Opener
    once: OnceRunner

    def answer(self, what: str, start: Callable[[], Operation]) -> Any:
        """Start the job, but only once for each Idempotency-Key."""
        return self.once(self.session, lambda: started(start(), what))


def job_start(
    caller: LoginOnly,
    session: Writing,
    kinds: Annotated[Mapping[str, Kind], Depends(the_kinds)],
    opener: Annotated[Opener, Depends(OPENER)],
    once: Once,
) -> JobStart:
    return JobStart(caller, session, kinds, opener, once)


ToStart = Annotated[JobStart, Depends(job_start)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRoutes:
    """The routes of one family of jobs. `name` names a route in the API document; `readers` guards those that read.

    `find` and `needs` are dependencies: `find` returns the job that a path names, if kind and id alone do not decide,
    and `needs` returns what `present` requires to describe it.
    """

    routes: APIRouter
    kind: str = ""
    present: Present
    readers: Callable[..., Any] = signed_in
    find: Callable[..., Awaitable[Find]] | None = None
    needs: Callable[..., Any] = the_logs

    @property
    def _named(self) -> Callable[..., Awaitable[Find]]:
        return self.find or of_kind(self.kind)

    @property
    def _read(self) -> Callable[..., Any]:
        """A dependency that returns the job named in the path, for a caller who may see it."""

        def job(*, caller: Caller = Depends(self.readers), find: Find = Depends(self._named), session: Reading) -> Any:
            return find(session, caller, Role.VIEWER)

        return job

    def status(self, path: str, answer: type[BaseModel], *, name: str, summary: str) -> None:
        @self.routes.get(path, name=name, summary=summary, responses=documented(404), response_model=answer)
        def read_job(*, job: Any = Depends(self._read), session: Reading, needs: Any = Depends(self.needs)) -> Any:
            return self.present(session, needs, [job], with_logs=True)[0]

    def page(self, path: str, answer: type[BaseModel], *, name: str, summary: str) -> None:
        """List all jobs in pages, optionally of one repository."""

        @self.routes.get(path, name=name, summary=summary, response_model=answer)
        def list_jobs(
            *,
            caller: Caller = Depends(self.readers),
            session: Reading,
            needs: Any = Depends(self.needs),
            repository_id: RowId | None = None,
            limit: PageLimit = 100,
            cursor: Cursor = None,
        ) -> Any:
            found, following = page_of_jobs(session, caller, self.kind, repository_id, limit, cursor)
            jobs = self.present(session, needs, found, with_logs=False)
            return answer(jobs=jobs, next_cursor=following)

    def of_repository(self, path: str, answer: type[BaseModel], *, name: str, summary: str) -> None:
        """List the newest jobs of a repository."""

        @self.routes.get(path, name=name, summary=summary, responses=documented(404), response_model=answer)
        def list_jobs(
            *,
            caller: Caller = Depends(self.readers),
            repository_id: RowId,
            session: Reading,
            needs: Any = Depends(self.needs),
            limit: JobLimit = 100,
        ) -> Any:
            store.require(session, caller, repository_id, Role.VIEWER)
            found = pages.latest_of_kind(session, repository_id, (self.kind,), limit)
            return answer(jobs=self.present(session, needs, found, with_logs=False))

    def log(self, path: str, *, name: str, summary: str, description: str | None = None) -> None:
        @self.routes.get(path, name=name, summary=summary, description=description, responses=documented(404))
        def read_log(*, job: Operation = Depends(self._read), part: PartOfLog) -> LogAnswer:
            return part.of(job)

    def log_file(self, path: str, *, name: str, summary: str) -> None:
        @self.routes.get(path, name=name, summary=summary, response_class=FileResponse, responses=LOG_FILE)
        def download_log(*, job: Operation = Depends(self._read), settings: TheSettings) -> FileResponse:
            return log_download(settings.logs_dir, job)

    def cancel(
        self,
        path: str,
        *,
        name: str,
        summary: str,
        description: str,
        least: Role = Role.OPERATOR,
        others: Cancel = cancel,
    ) -> None:
        """Cancel a job, for callers with the role `least` on the repository; `others` cancels jobs without an
        operation.
        """

        @self.routes.post(path, name=name, summary=summary, description=description, responses=documented(404, 409))
        @waits_for_end
        def cancel_job(*, caller: LoginOnly, find: Find = Depends(self._named), database: TheDatabase) -> CancelAnswer:
            with database.reading() as session:
                job = find(session, caller, least)
            if isinstance(job, Operation):
                return cancel(database, caller, job)
            return others(database, caller, job)
