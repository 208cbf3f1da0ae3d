"""Responses with the log of an operation."""

from pathlib import Path
from typing import Annotated

from fastapi import Depends, Query
from fastapi.responses import FileResponse

from backup_engine.frozen import frozen
from holdfast.api.dependencies import TheSettings
from holdfast.errors import Conflict, NotFound
from holdfast.kit.fields import PlainText
from holdfast.operations import logs
from holdfast.operations.models import Operation
from holdfast.operations.schemas import LogAnswer, LogLine, OperationLog
from holdfast.operations.status import ACTIVE, Status

Offset = Annotated[
    int, Query(ge=0, le=2**53, description="Number of lines already read: initially 0, then the last `total_lines`.")
]
Tail = Annotated[int | None, Query(ge=1, le=5000, description="Return only this many of the last lines.")]
FindText = Annotated[
    Annotated[str, PlainText(1, 200)] | None,
    Query(description="Text to find after `offset`, ignoring case; searches at most 16 MiB of the log in one call."),
]
LineLimit = Annotated[int, Query(ge=1, le=5000, description="Lines at most.")]


def log_page(folder: Path, operation: Operation, offset: int, limit: int) -> LogAnswer:
    page = logs.read_page(folder / operation.log_file, offset, limit) if operation.log_file else None
    if page is None:
        return LogAnswer(
            job_id=operation.id, status=operation.status, lines=[], total_lines=offset, log_lines=0, has_more=False
        )
    return LogAnswer(
        job_id=operation.id,
        status=operation.status,
        lines=[LogLine(line_number=number, content=content) for number, content in page.lines],
        total_lines=page.position,
        log_lines=page.log_lines,
        has_more=page.has_more,
    )


@frozen
class LogPart:
    """The range of log lines that a request asks for."""

    folder: Path
    offset: int
    limit: int

    def of(self, operation: Operation) -> LogAnswer:
        return log_page(self.folder, operation, self.offset, self.limit)


async def _log_part(settings: TheSettings, offset: Offset = 0, limit: LineLimit = 500) -> LogPart:
    return LogPart(settings.logs_dir, offset, limit)


PartOfLog = Annotated[LogPart, Depends(_log_part)]


def log_end(folder: Path, operation: Operation, lines: int) -> OperationLog:
    """Return the last lines, as many as fit into one response."""
    total = logs.count_lines(folder / operation.log_file) if operation.log_file else 0
    return OperationLog(**log_page(folder, operation, max(0, total - lines), lines).model_dump())


def log_match(folder: Path, operation: Operation, text: str, offset: int, limit: int) -> OperationLog:
    """Return the next line that contains the text, and the lines after it. Searching a long log takes several calls."""
    found = logs.find(folder / operation.log_file, text, offset) if operation.log_file else logs.Found(None, offset)
    start, wanted = (found.position, 0) if found.line is None else (found.line - 1, limit)
    page = log_page(folder, operation, start, wanted)
    return OperationLog(**page.model_dump(), next_match=found.line, searched_to=found.position)


def log_download(folder: Path, operation: Operation) -> FileResponse:
    """Return the whole log as a file. Raise Conflict while the operation has not ended, NotFound if there is no log."""
    if Status(operation.status) in ACTIVE:
        raise Conflict(
            "logs.still_running",
            "The operation has not ended; its log can be downloaded once it has.",
            status=operation.status,
        )
    path = folder / operation.log_file if operation.log_file else None
    if path is None or not path.is_file():
        raise NotFound("logs.not_stored", "No log of this operation is stored.")
    name = f"{operation.kind}-{operation.id}.log"
    return FileResponse(path, media_type="text/plain; charset=utf-8", filename=name)


def summary(folder: Path, operation: Operation, lines: int = 20) -> str | None:
    """Return the last lines of the log; None if there is no log."""
    if operation.log_file is None:
        return None
    found = logs.tail(folder / operation.log_file, lines)
    return "\n".join(found) if found else None
