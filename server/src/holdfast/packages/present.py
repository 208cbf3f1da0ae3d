"""Packages and install jobs as their payloads."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from holdfast.operations.job_status import job_values
from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from holdfast.operations.two_stream_log import Stream, read_back
from holdfast.packages import store
from holdfast.packages.models import Package
from holdfast.packages.schemas import PackageAnswer, PackageJob

STREAM_BYTES = 1 << 20
"""Maximum size of each stream in a response; the log download has all of it."""


def status_word(operation: Operation) -> str:
    return "installing" if operation.status == Status.RUNNING else operation.status


def packages(session: Session, found: Sequence[Package]) -> list[PackageAnswer]:
    active = store.active_installs(session)
    return [_package(package, active.get(package.id)) for package in found]


def _package(package: Package, install: Operation | None) -> PackageAnswer:
    return PackageAnswer.from_row(package, status=status_word(install) if install else package.status)


def jobs(session: Session, logs: Path, operations: Sequence[Operation], *, with_logs: bool) -> list[PackageJob]:
    shared = job_values(session, logs, operations, with_logs=False)
    return [
        PackageJob(**{**values, **_own(operation), **_streams(logs, operation, wanted=with_logs)})
        for operation, values in zip(operations, shared, strict=True)
    ]


def _own(operation: Operation) -> dict[str, Any]:
    return {
        "status": status_word(operation),
        "package_id": operation.params["package_id"],
        "install_command": operation.params["install_command"],
        "exit_code": (operation.result or {}).get("exit_code"),
    }


def _streams(logs: Path, operation: Operation, *, wanted: bool) -> dict[str, Any]:
    if not wanted or operation.log_file is None:
        return {"stdout": None, "stderr": None, "stdout_complete": None, "stderr_complete": None}
    answer: dict[str, Any] = {}
    for name, stream in (("stdout", Stream.OUTPUT), ("stderr", Stream.ERRORS)):
        content, whole = read_back(logs / operation.log_file, stream, STREAM_BYTES)
        answer[name] = content.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
        answer[f"{name}_complete"] = whole
    return answer
