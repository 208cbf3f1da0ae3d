"""Routes that families of jobs share, each declared in a line: status, lists, log and cancel."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel
from sqlalchemy.orm import Session

from holdfast.access.caller import Caller, LoginOnly, signed_in
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheDatabase, TheSettings
from holdfast.kit.fields import RowId
from holdfast.operations import pages
from holdfast.operations.cancel import cancel, waits_for_end
from holdfast.operations.job_status import page_of_jobs
from holdfast.operations.log_answers import PartOfLog
from holdfast.operations.models import Operation
from holdfast.operations.routes import Cursor, PageLimit
from holdfast.operations.schemas import CancelAnswer, LogAnswer
from holdfast.operations.visible import require
from holdfast.repositories import store

JobLimit = Annotated[int, Query(ge=1, le=500, description="Maximum number of jobs, newest first.")]


class Present(Protocol):
    def __call__(
        self, session: Session, logs: Path, operations: Sequence[Operation], /, *, with_logs: bool
    ) -> Sequence[BaseModel]:
        """The status payloads of jobs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRoutes:
    """`name` is the name of a route in the API's document, `readers` the guard of the routes that read."""

    routes: APIRouter
    kind: str
    present: Present
    readers: Callable[..., Any] = signed_in

    def status(self, path: str, answer: type[BaseModel], *, name: str, summary: str) -> None:
        @self.routes.get(path, name=name, summary=summary, responses=documented(404), response_model=answer)
        def read_job(
            *, caller: Caller = Depends(self.readers), job_id: RowId, session: Reading, settings: TheSettings
        ) -> Any:
            operation = require(session, caller, job_id, Role.VIEWER, self.kind)
            return self.present(session, settings.logs_dir, [operation], with_logs=True)[0]

    def page(self, path: str, answer: type[BaseModel], *, name: str, summary: str) -> None:
        """All of them, by pages; of one repository if wanted."""

        @self.routes.get(path, name=name, summary=summary, response_model=answer)
        def list_jobs(
            *,
            caller: Caller = Depends(self.readers),
            session: Reading,
            settings: TheSettings,
            repository_id: RowId | None = None,
            limit: PageLimit = 100,
            cursor: Cursor = None,
        ) -> Any:
            found, following = page_of_jobs(session, caller, self.kind, repository_id, limit, cursor)
            jobs = self.present(session, settings.logs_dir, found, with_logs=False)
            return answer(jobs=jobs, next_cursor=following)

    def of_repository(self, path: str, answer: type[BaseModel], *, name: str, summary: str) -> None:
        """The newest of a repository."""

        @self.routes.get(path, name=name, summary=summary, responses=documented(404), response_model=answer)
        def list_jobs(
            *,
            caller: Caller = Depends(self.readers),
            repository_id: RowId,
            session: Reading,
            settings: TheSettings,
            limit: JobLimit = 100,
        ) -> Any:
            store.require(session, caller, repository_id, Role.VIEWER)
            found = pages.latest_of_kind(session, repository_id, (self.kind,), limit)
            return answer(jobs=self.present(session, settings.logs_dir, found, with_logs=False))

    def log(self, path: str, *, name: str, summary: str, description: str | None = None) -> None:
        @self.routes.get(path, name=name, summary=summary, description=description, responses=documented(404))
        def read_log(
            *, caller: Caller = Depends(self.readers), job_id: RowId, session: Reading, part: PartOfLog
        ) -> LogAnswer:
            return part.of(require(session, caller, job_id, Role.VIEWER, self.kind))

    def cancel(self, path: str, *, name: str, summary: str, description: str) -> None:
        @self.routes.post(path, name=name, summary=summary, description=description, responses=documented(404, 409))
        @waits_for_end
        def cancel_job(caller: LoginOnly, job_id: RowId, database: TheDatabase) -> CancelAnswer:
            with database.reading() as session:
                operation = require(session, caller, job_id, Role.OPERATOR, self.kind)
            return cancel(database, caller, operation)
