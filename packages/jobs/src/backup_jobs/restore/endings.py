"""The endings of a restore, and its report."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from backup_engine.protected_places import IN_OWN_PLACE
from backup_jobs.endings import Completed, Ended, Failed, Stopped, TryAgain, Warnings
from backup_jobs.host import Host, Step
from backup_jobs.paths import describe, shown
from backup_jobs.restore.survey import Survey, readable_paths

NOTHING: Mapping[str, Any] = {
    "files_restored": 0,
    "bytes_restored": 0,
    "files_skipped": 0,
    "bytes_skipped": 0,
    "files_failed": 0,
    "bytes_failed": 0,
    "files_passed_over": 0,
    "bytes_passed_over": 0,
    "files_not_restored": 0,
    "special_files": 0,
    "skipped": [],
    "failed": [],
    "passed_over": [],
    "special": [],
    "conflicts": [],
    "conflict_count": 0,
}
GIVEN_UP = "Too many files could not be extracted; the log names them. Nothing was restored."


def refused(key: str, message: str, **details: Any) -> Failed:
    return Failed(key, f"{message} Nothing was restored.", details={**NOTHING, **details})


def interrupted(sentence: str) -> Failed:
    return Failed(
        "operations.interrupted", f"{sentence} Nothing was restored; start the restore again.", details=NOTHING
    )


def with_nothing(bad: Failed | Stopped | TryAgain) -> Ended:
    """Complete the ending of a failed engine run: nothing was restored."""
    match bad:
        case Failed():
            return replace(bad, message=f"{bad.message} Nothing was restored.", details=NOTHING)
        case Stopped():
            return replace(bad, details=NOTHING)
        case TryAgain():
            return bad


def refusal(surveyed: Survey, overwrite: str, *, dry_run: bool) -> Failed | None:
    """Return a failure if the listing shows that the restore must not start."""
    if found := fault(surveyed) or forbidden(surveyed):
        return refused(*found)
    if overwrite == "fail" and surveyed.conflict_count and not dry_run:
        return conflicting(surveyed.conflict_count, surveyed.shown_conflicts())
    return None


def fault(surveyed: Survey) -> tuple[str, str] | None:
    """Key and sentence for problems of the archive or the wanted paths, independent of the destination."""
    if surveyed.missing:
        return "archives.path_not_found", f"The archive does not contain {readable_paths(surveyed.missing)}."
    if surveyed.unsafe:
        named = readable_paths(surveyed.unsafe)
        return (
            "restore.unsafe_archive",
            f"The archive contains paths that lead outside the destination or are not valid file names: {named}.",
        )
    if surveyed.collisions:
        named = readable_paths(surveyed.collisions)
        return "restore.names_collide", f"Several of the selected folders contain the same names: {named}."
    return None


def forbidden(surveyed: Survey) -> tuple[str, str] | None:
    """Key and sentence if requested paths, or all files, would end up in the program's own data or in a repository."""
    if surveyed.own_roots or (surveyed.own_files and surveyed.own_files == surveyed.files):
        return target_forbidden(readable_paths(surveyed.own_roots or surveyed.own))
    return None


def target_forbidden(named: str) -> tuple[str, str]:
    sentence = f"These paths would be restored into a repository or the backup program's own data: {named}."
    return "restore.destination_forbidden", f"{sentence} Choose another destination."


def conflicting(count: int, conflicts: list[dict[str, str]]) -> Failed:
    sentence = f"{count} of the files to restore already exist, the first of them: {describe(conflicts[0])}."
    return refused("restore.conflicts", sentence, conflicts=conflicts, conflict_count=count)


def dry_run(surveyed: Survey) -> Completed:
    details = {
        "dry_run": True,
        "files": surveyed.files,
        "bytes": surveyed.size,
        "special_files": surveyed.special,
        "conflicts": surveyed.shown_conflicts(),
        "conflict_count": surveyed.conflict_count,
        "files_passed_over": surveyed.own_files,
        "passed_over": [{**shown(path), "reason": IN_OWN_PLACE} for path in surveyed.own],
    }
    return Completed(None, details=details)


def dry_run_line(surveyed: Survey, destination: str) -> str:
    return (
        f"Dry run: {file_count(surveyed.files)} ({surveyed.size} bytes) would be restored to {destination};"
        f" {surveyed.conflict_count} already exist."
    )


def file_count(number: int) -> str:
    return "1 file" if number == 1 else f"{number} files"


def first_line(surveyed: Survey, archive: str, destination: str) -> str:
    return f"Restoring {file_count(surveyed.files)} ({surveyed.size} bytes) of {archive} to {destination}."


def ended(
    host: Host, step: Step | None, moved: Mapping[str, Any], attributes: Iterable[str], more: Iterable[Any] = ()
) -> Ended:
    """Build the ending of a restore from the account of moving its files. `more` contains further warnings."""
    result, code = moved["result"], step.exit.code if step else None
    warnings = (*_warnings(moved, attributes), *more)
    host.log(*_log_lines(moved), *(f"WARNING: {warning['message']}" for warning in warnings))
    if moved["how"] == "conflicts":
        failed = conflicting(result["conflict_count"], result["conflicts"])
        return replace(failed, details=result, warnings=warnings)
    if moved["how"] == "cancelled":
        return Stopped(code, result)
    if moved["how"] == "given_up":
        return Failed("restore.incomplete", GIVEN_UP, code, result, warnings)
    if not result["files_failed"]:
        host.report(
            nfiles=result["files_restored"],
            restored_size=result["bytes_restored"],
            original_size=moved["size"],
            progress_percent=100.0,
            message=None,
        )
    return counted(result, code, warnings, is_warned=bool(warnings))


def counted(result: dict[str, Any], code: int | None, warnings: Warnings, *, is_warned: bool) -> Failed | Completed:
    """Decide the ending by the number of files, on every machine: a restore that misses a file has failed."""
    if result["files_failed"]:
        return Failed("restore.incomplete", incomplete(result), code, result, warnings)
    return Completed(code, is_warned, warnings=warnings if is_warned else (), details=result)


def incomplete(result: Mapping[str, Any]) -> str:
    first = f"; the first: {describe(result['failed'][0])}" if result["failed"] else ""
    return _storable(f"{result['files_failed']} files were not restored{first}.")


def _warnings(moved: Mapping[str, Any], attributes: Iterable[str]) -> list[dict[str, Any]]:
    result = moved["result"]
    special = [{"path": item["path"], "message": describe(item)} for item in result["special"]]
    folders = [
        {"path": item["path"], "message": f"{item['path']}: attributes not set: {item['reason']}"}
        for item in moved["attributes"]
    ]
    engine = [{"path": None, "message": _storable(message)} for message in attributes]
    unnamed = about_special(result["special_files"] - len(result["special"]))
    return [*special, *unnamed, *folders, *engine, *passed_over(result)]


def about_special(count: int) -> list[dict[str, Any]]:
    return [{"path": None, "message": f"{count} FIFOs or devices are not restored."}] if count > 0 else []


def passed_over(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The warning about files that were skipped because of the service's own places or repositories."""
    if not result.get("files_passed_over") and not result.get("passed_over"):
        return []
    first = f"; the first: {result['passed_over'][0]['path']}" if result.get("passed_over") else ""
    count = result.get("files_passed_over", 0)
    sentence = f"{count} files were skipped because they belong to a repository or the service's own data{first}."
    return [{"path": None, "message": _storable(sentence)}]


def _log_lines(moved: Mapping[str, Any]) -> list[str]:
    result = moved["result"]
    lines = [f"Restored {result['files_restored']} files ({result['bytes_restored']} bytes)."]
    if result["files_not_restored"]:
        lines.append(f"Not restored because the operation was stopped: {result['files_not_restored']} files.")
    if result["files_skipped"]:
        lines.append(f"Skipped because something already exists there: {result['files_skipped']} files.")
        lines += [f"  {describe(item)}" for item in result["skipped"]]
    if result["files_failed"]:
        lines.append(f"Not restored: {result['files_failed']} files.")
        lines += [f"  {describe(item)}" for item in result["failed"]]
    return lines


def _storable(text: str) -> str:
    """The text without characters that the store rejects: NUL and lone surrogates."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
