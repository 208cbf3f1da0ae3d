"""What a job did, in a sentence made from its result: one section per kind."""

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.entry.client.units import count, duration, size, speed

Operation = Mapping[str, Any]
FIRST = 3
"""Maximum number of warnings and other items shown; the rest are only counted."""

WHAT_TO_DO = {
    "engine.locked": "Another program is using the repository. If none is: holdfast repos break-lock {repository}",
    "engine.passphrase_wrong": "Enter the correct passphrase: holdfast repos change {repository} --passphrase",
    "engine.passphrase_missing": "Enter the passphrase: holdfast repos change {repository} --passphrase",
    "engine.source_missing": "Correct the sources: holdfast repos change {repository} --source PATH",
    "engine.disk_full": "Free up space: holdfast prune {repository}, then holdfast compact {repository}",
    "engine.damaged": "Find the damage: holdfast check {repository}",
    "engine.repository_relocated": "If the repository was moved on purpose: holdfast repos confirm-relocation "
    "{repository}",
    "engine.repository_older": "If an older copy was restored on purpose: holdfast repos confirm-older {repository}",
    "repository.replaced": "If the other repository is the right one now: holdfast repos accept-replacement "
    "{repository}",
    "engine.unreachable": "Check the machine and the network: holdfast machines",
    "restore.conflicts": "Choose how to handle existing files: --overwrite skip or --overwrite replace",
    "mirror.source_suspicious": "Check the repository first: holdfast check {repository}",
}


def summary(operation: Operation) -> str:
    """What a finished operation did, in one sentence."""
    subject = operation["repository"] or operation["package_name"]
    prefix = f"{subject}: " if subject else ""
    status, kind = operation["status"], str(operation["kind"]).replace("_", " ")
    if status == "failed":
        sentence = operation["error_message"] or "no reason was given"
        return f"{prefix}{kind} failed: {sentence} ({operation['error_key'] or 'unknown'})"
    if status == "cancelled":
        return f"{prefix}{kind} was cancelled{_after(operation)}."
    if status == "skipped":
        return f"{prefix}{kind} was skipped: {operation['skip_reason'] or 'it was not needed'}."
    describe = DONE.get(operation["kind"])
    sentence = describe(operation) if describe else f"{kind} done{_after(operation)}"
    return f"{prefix}{sentence}" + ("" if ": holdfast " in sentence else ".")  # no full stop after a command


def details(operation: Operation, most: int = FIRST) -> list[str]:
    """More lines about a finished operation: warnings, items left out, next steps; `most` of each."""
    lines = [*_warnings(operation, most), *_left_out(operation, most)]
    if operation["status"] == "failed":
        advice = WHAT_TO_DO.get(operation["error_key"] or "")
        if advice:
            lines.append(advice.format(repository=operation["repository"] or "NAME"))
    return lines


def _after(operation: Operation) -> str:
    return f" after {duration(operation['duration_seconds'])}" if operation["duration_seconds"] is not None else ""


def _in(operation: Operation, moved: int | None = None) -> str:
    seconds = operation["duration_seconds"]
    if seconds is None:
        return ""
    rate = speed(moved, seconds)
    return f" in {duration(seconds)}" + (f", {rate}" if rate else "")


def _backup(operation: Operation) -> str:
    result = operation["result"] or {}
    stats = result.get("stats") or {}
    total, new = stats.get("original_size"), stats.get("deduplicated_size")
    sentence = (
        f"backed up {count(stats.get('nfiles'), 'file')}, {size(total)} (new: {size(new)}){_in(operation, total)}"
    )
    return f"{sentence}; archive {operation['archive_name']}" if operation["archive_name"] else sentence


def _restore(operation: Operation) -> str:
    result = operation["result"] or {}
    if result.get("dry_run"):
        there = f"; {result['conflict_count']:,} already exist" if result.get("conflict_count") else ""
        return f"would restore {count(result.get('files'), 'file')}, {size(result.get('bytes'))}{there}"
    restored = result.get("bytes_restored")
    sentence = f"restored {count(result.get('files_restored'), 'file')}, {size(restored)}{_in(operation, restored)}"
    if skipped := result.get("files_skipped"):
        sentence += f"; skipped {skipped:,} that {'exists' if skipped == 1 else 'exist'}"
    if missing := result.get("files_not_restored"):
        sentence += f"; {missing:,} not restored"
    return sentence


def _check(operation: Operation) -> str:
    result = operation["result"] or {}
    problems = result.get("problem_count") or 0
    what = "checked repository and data" if result.get("verify_data") else "checked"
    found = "no problems found" if not problems else f"{count(problems, 'problem')} found"
    part = "" if result.get("complete", True) else "; only partly; the next check continues there"
    return f"{what}{_in(operation)}: {found}{part}"


def _prune(operation: Operation) -> str:
    result = operation["result"] or {}
    removed, kept = result.get("pruned_count"), result.get("kept_count")
    sentence = f"removed {count(removed, 'archive')}, kept {count(kept)}{_in(operation)}"
    return f"{sentence}; reclaim the space with: holdfast compact {operation['repository']}" if removed else sentence


def _compact(operation: Operation) -> str:
    freed = (operation["result"] or {}).get("freed_bytes")
    return f"compacted{_in(operation)}; " + ("freed space unknown" if freed is None else f"freed {size(freed)}")


def _restore_check(operation: Operation) -> str:
    result = operation["result"] or {}
    proven, total = result.get("files_proven"), result.get("files_in_archive")
    of = f" of {count(total)} in {operation['archive_name']}" if total else ""
    sentence = f"read back {count(proven, 'file')}{of}, {size(result.get('bytes_proven'))}{_in(operation)}"
    problems = result.get("problem_count") or 0
    return f"{sentence}: " + (f"{count(problems, 'problem')}" if problems else "all can be restored")


def _delete(operation: Operation) -> str:
    return (
        f"deleted archive {operation['archive_name']}{_in(operation)}; reclaim the space with: holdfast compact "
        f"{operation['repository']}"
    )


def _undelete(operation: Operation) -> str:
    archive = (operation["result"] or {}).get("archive") or {}
    return f"brought back archive {archive.get('name') or operation['archive_name']}{_in(operation)}"


def _wipe(operation: Operation) -> str:
    result = operation["result"] or {}
    sentence = f"deleted {count(result.get('deleted_count'), 'archive')}{_in(operation)}"
    if left := result.get("remaining_count"):
        sentence += f"; {left:,} remain"
    if result.get("freed_bytes") is not None:
        return f"{sentence}; freed {size(result['freed_bytes'])}"
    return f"{sentence}; the space is not freed yet: holdfast compact {operation['repository']}"


def _sync(operation: Operation) -> str:
    result = operation["result"] or {}
    moved = result.get("transferred_bytes")
    sentence = f"mirrored {count(result.get('source_files'), 'file')}, {size(result.get('source_bytes'))}"
    sentence += f" (sent: {size(moved)}){_in(operation, moved)} to {result.get('destination')}"
    if not result.get("verified"):
        return f"{sentence}; not compared with the repository"
    return sentence + ("; verified by hash" if result.get("verified_hashes") else "; verified by name and size only")


def _hydrate(operation: Operation) -> str:
    result = operation["result"] or {}
    moved = result.get("transferred_bytes")
    sentence = f"fetched {count(result.get('transferred_files'), 'file')}, {size(moved)}{_in(operation, moved)}"
    return f"{sentence} into {result.get('destination')}; use it with: holdfast repos import"


def _package(operation: Operation) -> str:
    return f"installed{_in(operation)}"


def _archives(operation: Operation) -> str:
    result = operation["result"] or {}
    change = f"{count(result.get('added'))} new, {count(result.get('removed'))} gone"
    return f"listed {count(result.get('total'), 'archive')} ({change}){_in(operation)}"


def _stats(operation: Operation) -> str:
    result = operation["result"] or {}
    return f"measured: {size(result.get('total_size'))} in archives, {size(result.get('unique_size'))} stored"


def _history(operation: Operation) -> str:
    result = operation["result"] or {}
    failed = f", {count(result['failed'])} failed" if result.get("failed") else ""
    return f"indexed the files of {count(result.get('indexed'), 'archive')}{failed}{_in(operation)}"


DONE: dict[str, Callable[[Operation], str]] = {
    "backup": _backup,
    "restore": _restore,
    "check": _check,
    "prune": _prune,
    "compact": _compact,
    "restore_check": _restore_check,
    "delete_archive": _delete,
    "undelete_archive": _undelete,
    "wipe": _wipe,
    "sync": _sync,
    "hydrate": _hydrate,
    "package_install": _package,
    "archives": _archives,
    "stats": _stats,
    "history": _history,
}


def _warnings(operation: Operation, most: int) -> list[str]:
    warnings = operation["warnings"]
    total = max(len(warnings), (operation["result"] or {}).get("warning_count") or 0)
    if not total:
        return []
    lines = [f"{count(total, 'warning')}:", *(f"  {_warning(one)}" for one in warnings[:most])]
    if total > most:
        where = f"holdfast ops show {operation['id']}" if len(warnings) > most else f"holdfast logs {operation['id']}"
        lines.append(f"  and {total - min(most, len(warnings)):,} more: {where}")
    return lines


def _warning(warning: Mapping[str, Any]) -> str:
    return str(warning.get("message") or warning.get("path") or warning)


def _left_out(operation: Operation, most: int) -> list[str]:
    """The first files that a restore skipped or could not write, and the first problems that a check found."""
    result = operation["result"] or {}
    lines: list[str] = []
    for heading, field, counted in (
        ("skipped", "skipped", "files_skipped"),
        ("not restored", "failed", "files_failed"),
        ("in the way", "conflicts", "conflict_count"),
        ("problems", "problems", "problem_count"),
        ("still there", "remaining", "remaining_count"),
    ):
        items, total = result.get(field) or [], result.get(counted) or 0
        if not isinstance(items, list) or not items:
            continue
        lines.append(f"{heading}:")
        lines += [f"  {_item(item)}" for item in items[:most]]
        if total > most:
            lines.append(f"  and {total - min(most, len(items)):,} more: holdfast logs {operation['id']}")
    return lines


def _item(item: Any) -> str:
    if not isinstance(item, Mapping):
        return str(item)
    path, reason = item.get("path"), item.get("reason") or item.get("message")
    return f"{path}: {reason}" if path and reason else str(path or reason or dict(item))
