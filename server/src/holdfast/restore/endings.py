"""How a restore may end, and what is then said about it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from holdfast.kit.text import storable
from holdfast.operations.context import Context
from holdfast.operations.kinds import Outcome, TryAgain
from holdfast.operations.status import Status
from holdfast.restore.archived_paths import describe
from holdfast.restore.schemas import RestoreParams
from holdfast.restore.survey import Survey, readable_paths

NOTHING: Mapping[str, Any] = {
    "files_restored": 0,
    "bytes_restored": 0,
    "files_skipped": 0,
    "bytes_skipped": 0,
    "files_failed": 0,
    "bytes_failed": 0,
    "files_not_restored": 0,
    "special_files": 0,
    "skipped": [],
    "failed": [],
    "special": [],
    "conflicts": [],
    "conflict_count": 0,
}


def refused(key: str, message: str, **result: Any) -> Outcome:
    return nothing_restored(Status.FAILED, key, f"{message} Nothing was restored.", **result)


def nothing_restored(status: Status, key: str | None, message: str | None, **result: Any) -> Outcome:
    return Outcome(status, key, message, result={**NOTHING, **result})


def with_nothing(ending: Outcome | TryAgain) -> Outcome | TryAgain:
    """An engine run that came to nothing: say that nothing was restored."""
    if isinstance(ending, TryAgain):
        return ending
    message = f"{ending.error_message} Nothing was restored." if ending.error_message else None
    return replace(ending, error_message=message, result={**NOTHING, **(ending.result or {})})


def refusal(surveyed: Survey, params: RestoreParams) -> Outcome | None:
    """What the listing tells that keeps a restore from being begun."""
    if found := fault(surveyed):
        return refused(*found)
    if params.overwrite == "fail" and surveyed.conflict_count and not params.dry_run:
        return conflicting(surveyed.conflict_count, surveyed.shown_conflicts())
    return None


def fault(surveyed: Survey) -> tuple[str, str] | None:
    """What is wrong with the archive or the wanted paths, whatever is at the destination: key and sentence."""
    if surveyed.missing:
        return "archives.path_not_found", f"The archive does not hold {readable_paths(surveyed.missing)}."
    if surveyed.unsafe:
        named = readable_paths(surveyed.unsafe)
        return "restore.unsafe_archive", f"The archive holds paths that lead out of the destination: {named}."
    if surveyed.collisions:
        named = readable_paths(surveyed.collisions)
        return "restore.names_collide", f"Several of the wanted folders hold the same names: {named}."
    return None


def conflicting(count: int, conflicts: list[dict[str, str]]) -> Outcome:
    sentence = f"{count} of the files to restore are there already; the first: {describe(conflicts[0])}."
    return refused("restore.conflicts", sentence, conflicts=conflicts, conflict_count=count)


def dry_run(surveyed: Survey) -> Outcome:
    result = {
        "dry_run": True,
        "files": surveyed.files,
        "bytes": surveyed.size,
        "special_files": surveyed.special,
        "conflicts": surveyed.shown_conflicts(),
        "conflict_count": surveyed.conflict_count,
    }
    return Outcome(Status.COMPLETED, result=result)


def dry_run_line(surveyed: Survey, destination: str) -> str:
    return (
        f"Dry run: {surveyed.files} files ({surveyed.size} bytes) would be restored to {destination};"
        f" {surveyed.conflict_count} are there already."
    )


def first_line(surveyed: Survey, archive: str, destination: str) -> str:
    return f"Restoring {surveyed.files} files ({surveyed.size} bytes) of {archive} to {destination}."


def ended(context: Context, moved: Mapping[str, Any], attributes: Iterable[str]) -> Outcome:
    """The ending of a restore that has extracted its files, from the account of moving them into place."""
    result = moved["result"]
    warnings = _warnings(moved, attributes)
    context.log(*_log_lines(moved), *(f"WARNING: {warning['message']}" for warning in warnings))
    if moved["how"] == "conflicts":
        return replace(conflicting(result["conflict_count"], result["conflicts"]), result=result, warnings=warnings)
    if moved["how"] == "cancelled":
        return Outcome(Status.CANCELLED, result=result, warnings=warnings)
    if moved["how"] == "given_up":
        sentence = "The engine could not extract too many of the files; its log names them. Nothing was restored."
        return Outcome(Status.FAILED, "restore.incomplete", sentence, result=result, warnings=warnings)
    if result["files_failed"]:
        sentence = f"{result['files_failed']} files were not restored; the first: {describe(result['failed'][0])}."
        return Outcome(Status.FAILED, "restore.incomplete", storable(sentence), result=result, warnings=warnings)
    context.report(
        nfiles=result["files_restored"],
        restored_size=result["bytes_restored"],
        original_size=moved["size"],
        progress_percent=100.0,
        message=None,
    )
    status = Status.COMPLETED_WITH_WARNINGS if warnings else Status.COMPLETED
    return Outcome(status, result=result, warnings=warnings)


def _warnings(moved: Mapping[str, Any], attributes: Iterable[str]) -> tuple[dict[str, Any], ...]:
    special = [{"path": item["path"], "message": describe(item)} for item in moved["result"]["special"]]
    folders = [
        {"path": item["path"], "message": f"{item['path']}: attributes not set: {item['reason']}"}
        for item in moved["attributes"]
    ]
    engine = [{"path": None, "message": storable(message)} for message in attributes]
    return tuple(special + folders + engine)


def _log_lines(moved: Mapping[str, Any]) -> list[str]:
    result = moved["result"]
    lines = [f"Restored {result['files_restored']} files ({result['bytes_restored']} bytes)."]
    if result["files_not_restored"]:
        lines.append(f"Not restored, because the operation was stopped: {result['files_not_restored']} files.")
    if result["files_skipped"]:
        lines.append(f"Skipped, because something is there already: {result['files_skipped']} files.")
        lines += [f"  {describe(item)}" for item in result["skipped"]]
    if result["files_failed"]:
        lines.append(f"Not restored: {result['files_failed']} files.")
        lines += [f"  {describe(item)}" for item in result["failed"]]
    return lines
