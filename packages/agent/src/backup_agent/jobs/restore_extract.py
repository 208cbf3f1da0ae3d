"""`restore.extract`: files of an archive, put into a folder of this machine."""

import base64
import binascii
import os
from collections.abc import Iterable
from typing import Any

from backup_agent.job_work import (
    Completed,
    Ended,
    Failed,
    Stopped,
    Work,
    ended_without_success,
    is_warned,
    readable,
    warnings_of,
    within_message,
)
from backup_agent.private_tree import DestinationUnusable, Placed, PrivateTree
from backup_agent.progress import PhaseProgress
from backup_agent.restore_survey import Survey, survey
from backup_agent.steps import Interrupted, Step
from backup_engine.listing import read_listing
from backup_engine.parse import GarbledOutput
from backup_engine.requests import ExtractRequest, InvalidRequest, ListFilesRequest
from backup_protocol import RestoreBlock

LIST, EXTRACT = "list", "extract"
PHASES = ("extract",)
BLOCK = 1 << 20
LAYOUTS = frozenset({"preserve_path", "contents_only"})
OVERWRITES = frozenset({"skip", "replace", "fail"})
NOTHING = {"files_restored": 0, "bytes_restored": 0}


def run(work: Work) -> Ended:
    block = block_of(work)
    destination = destination_of(block)
    roots = paths_of(block)
    require_known_words(block)
    wanted = tuple(os.fsdecode(root) for root in roots)
    request = ListFilesRequest(_address(work), paths=wanted, exact=True)
    listing = work.steps.run(LIST, work.engine.list_files(work.location, request), quiet=True)
    if bad := ended_without_success(listing, dict(NOTHING)):
        return bad
    surveyed = _surveyed(listing, roots, contents_only=block.restore_layout == "contents_only")
    if fault := _fault(surveyed):
        return Failed(*fault, details=dict(NOTHING))
    if block.dry_run:
        told = f"{surveyed.files} files ({surveyed.size} bytes)"
        work.steps.say(f"Dry run: {told} would be restored to {readable(block.destination)}.")
        return Completed(0, details={"dry_run": True, "files": surveyed.files, "bytes": surveyed.size})
    try:
        return _extracted(work, block, PrivateTree(destination, key_of(work)), roots, surveyed)
    except DestinationUnusable as error:
        return Failed("restore.destination_unusable", str(error), details=dict(NOTHING))


def interrupted(work: Work, interrupted: Interrupted) -> Ended:
    """The engine is only ever interrupted before anything is moved into place. A restore is never begun again unasked."""
    PrivateTree(destination_of(block_of(work)), key_of(work)).remove()
    if work.steps.is_cancelled():
        return Stopped(None, dict(NOTHING))
    sentence = f"{interrupted.sentence()} Nothing was restored; start the restore again."
    return Failed("operations.interrupted", sentence, details=dict(NOTHING))


def require_known_words(block: RestoreBlock) -> None:
    if block.restore_layout not in LAYOUTS or block.overwrite not in OVERWRITES:
        raise InvalidRequest("The restore has a layout or a way to overwrite that this agent does not know.")


def destination_of(block: RestoreBlock) -> bytes:
    """Raise InvalidRequest if it is not an absolute path without steps back."""
    path = os.fsencode(block.destination)
    parts = path.split(b"/")
    if not path.startswith(b"/") or b"\0" in path or b".." in parts:
        raise InvalidRequest("The destination of a restore is an absolute path without '..'.")
    return b"/" + b"/".join(part for part in parts if part not in (b"", b"."))


def paths_of(block: RestoreBlock) -> tuple[bytes, ...]:
    """The wanted paths as bytes, none below another. Raise InvalidRequest for one that leads out of the archive."""
    found = sorted({_path(value) for value in block.paths})
    return tuple(path for path in found if not any(path.startswith(other + b"/") for other in found))


def _path(value: Any) -> bytes:
    try:
        raw = base64.b64decode(value["path_b64"], validate=True) if isinstance(value, dict) else value.encode()
    except (KeyError, TypeError, AttributeError, binascii.Error, ValueError) as error:
        raise InvalidRequest("A path of the restore cannot be read.") from error
    parts = [part for part in raw.split(b"/") if part]
    if not parts or b"\0" in raw or any(part in (b".", b"..") for part in parts):
        raise InvalidRequest("A path of the restore is empty or leads out of the archive.")
    return b"/".join(parts)


def block_of(work: Work) -> RestoreBlock:
    assert isinstance(work.block, RestoreBlock)
    return work.block


def _address(work: Work) -> str:
    block = block_of(work)
    return work.engine.address(block.archive, block.archive_id)


def key_of(work: Work) -> str:
    return str(work.steps.once("key", lambda: {"key": os.urandom(16).hex()})["key"])


def _surveyed(listing: Step, roots: tuple[bytes, ...], *, contents_only: bool) -> Survey:
    try:
        with listing.stdout.open("rb") as file:
            return survey(read_listing(iter(lambda: file.read(BLOCK), b"")), roots, contents_only=contents_only)
    except GarbledOutput as error:
        raise InvalidRequest(str(error)) from error


def _fault(surveyed: Survey) -> tuple[str, str] | None:
    """What keeps a restore from being begun: key and sentence."""
    if surveyed.missing:
        return "archives.path_not_found", f"The archive does not hold {_some(surveyed.missing)}."
    if surveyed.unsafe:
        named = _some(surveyed.unsafe)
        return "restore.unsafe_archive", f"The archive holds paths that lead out of the destination: {named}."
    if surveyed.collisions:
        named = _some(surveyed.collisions)
        return "restore.names_collide", f"Several of the wanted folders hold the same names: {named}."
    return None


def _some(paths: list[bytes]) -> str:
    return ", ".join(readable(os.fsdecode(path)) for path in paths[:3])


def _extracted(
    work: Work, block: RestoreBlock, private: PrivateTree, roots: tuple[bytes, ...], surveyed: Survey
) -> Ended:
    if not work.steps.has_begun(EXTRACT):
        private.make()
    progress = PhaseProgress(work.steps.report, PHASES)
    request = ExtractRequest(
        _address(work),
        tuple(map(os.fsdecode, roots)),
        destination=os.fsdecode(private.path),
        excluded_paths=tuple(map(os.fsdecode, surveyed.links_in_the_way)),
        sparse=True,
        without_flags=True,
    )
    step = work.steps.run(EXTRACT, work.engine.extract(work.location, request), on_event=progress.hear)
    if bad := ended_without_success(step, dict(NOTHING)):
        private.remove()
        return bad
    return _moved(work, block, private, roots, step)


def _moved(work: Work, block: RestoreBlock, private: PrivateTree, roots: tuple[bytes, ...], step: Step) -> Ended:
    moved = moved_into_place(work, block, private, roots)
    return moved if isinstance(moved, Failed) else _ended(work, step, moved)


def moved_into_place(
    work: Work, block: RestoreBlock, private: PrivateTree, roots: tuple[bytes, ...]
) -> dict[str, Any] | Failed:
    """The account of what was moved from the private folder, which is gone then; or that something stood in the way."""
    contents = roots if block.restore_layout == "contents_only" else ()
    counted = counted_in(work, private)
    conflicts = work.steps.once("conflicts", lambda: conflicts_of(private, contents, block.overwrite))
    if conflicts["conflict_count"]:
        private.remove()
        sentence = f"{conflicts['conflict_count']} of the files to restore are there already; nothing was restored."
        return Failed("restore.conflicts", sentence, details={**NOTHING, **conflicts})
    account = work.steps.once("moved", lambda: account_of(private, contents, block.overwrite, counted, work))
    private.remove()
    return dict(account)


def counted_in(work: Work, private: PrivateTree) -> Any:
    """Files and bytes of the private folder as they were before anything was moved."""
    return work.steps.once("count", lambda: dict(zip(("files", "bytes"), private.count(), strict=True)))


def conflicts_of(private: PrivateTree, contents: tuple[bytes, ...], overwrite: str) -> dict[str, Any]:
    found = private.conflicts(contents) if overwrite == "fail" else []
    return {"conflict_count": len(found), "conflicts": items_of(found)}


def account_of(
    private: PrivateTree, contents: tuple[bytes, ...], overwrite: str, counted: Any, work: Work
) -> dict[str, Any]:
    placed: Placed = private.place(contents, overwrite, work.steps.is_cancelled)
    left_files, left_bytes = private.count() if placed.cancelled else (0, 0)
    kept_files = placed.skipped.files + placed.failed.files
    kept_bytes = placed.skipped.size + placed.failed.size
    return {
        "files_restored": counted["files"] - (left_files if placed.cancelled else kept_files),
        "bytes_restored": counted["bytes"] - (left_bytes if placed.cancelled else kept_bytes),
        "files_skipped": placed.skipped.files,
        "bytes_skipped": placed.skipped.size,
        "files_failed": placed.failed.files,
        "bytes_failed": placed.failed.size,
        "skipped": items_of(placed.skipped.named),
        "failed": items_of(placed.failed.named),
        "cancelled": placed.cancelled,
    }


def _ended(work: Work, step: Step, account: dict[str, Any]) -> Ended:
    cancelled = account.pop("cancelled")
    work.steps.say(f"Restored {account['files_restored']} files ({account['bytes_restored']} bytes).")
    if account["files_skipped"]:
        work.steps.say(f"Skipped, because something is there already: {account['files_skipped']} files.")
    warnings = warnings_of(step.accumulator) if is_warned(step) else ()
    if cancelled:
        return Stopped(step.exit.code, account)
    if account["files_failed"]:
        sentence = f"{account['files_failed']} files were not restored; the first: {account['failed'][0]['path']}."
        return Failed("restore.incomplete", sentence, step.exit.code, account, warnings)
    return Completed(step.exit.code, is_warned(step), warnings=warnings, details=account)


def items_of(named: Iterable[tuple[bytes, str]]) -> list[dict[str, Any]]:
    return within_message(_item(path, reason) for path, reason in named)


def _item(path: bytes, reason: str) -> dict[str, Any]:
    shown = {"path": path.decode("utf-8", "replace"), "reason": reason}
    if shown["path"].encode() != path:
        shown["path_b64"] = base64.b64encode(path).decode()
    return shown
