"""The operation kind `restore_check`: prove that files can be restored, by their chunks or a dry-run extraction."""

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from sqlalchemy.orm import Session

from backup_engine.events import Event
from backup_engine.frozen import frozen
from backup_engine.render import log_line
from backup_engine.requests import ExtractRequest, InvalidRequest, ListArchivesRequest, ListFilesRequest
from backup_engine.results import ArchiveInfo, GarbledOutput
from backup_jobs import paths as text
from backup_jobs.archives import described, read_archives
from backup_jobs.delete import GONE, UNKNOWN
from backup_jobs.host import SUCCEEDED, Cancelled, Step
from backup_jobs.progress import PhaseProgress
from backup_jobs.restore.endings import file_count
from holdfast.kit.schema import Closed
from holdfast.maintenance.by_chunks import LARGEST_CANARY, ArchiveReaders, CheckScope, exact_paths, read_by_chunks
from holdfast.maintenance.file_records import Extent, FileRecord, choose, extent_of, read_records, unsafe_paths
from holdfast.maintenance.proof import Proof
from holdfast.maintenance.schemas import Canary, ExactCheckPath
from holdfast.operations.end_time import end_of_work
from holdfast.operations.kinds import Kind, from_result
from holdfast.operations.locks import Access
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.operations.status import Status
from holdfast.repositories import store
from holdfast.repositories.location import Opener
from holdfast.repositories.work import RepositoryWork, repository_kind

PHASES = ("extract",)
DEFAULT_SAMPLE = 100
NO_ARCHIVE = ("restore_check.no_archive", "The repository has no archive to check.")
NOT_PROVEN = "restore_check.not_proven"
PATH_MISSING = "restore_check.path_missing"
UNSAFE = "restore.unsafe_archive"
MOST_UNSAFE = 100

Mode = Literal["full", "paths", "sample", "canary"]
ReadBy = Literal["chunks", "engine"]


class RestoreCheckParams(Closed):
    """What to prove, by default in the newest archive."""

    mode: Mode = "sample"
    archive: str | None = None
    engine_id: str | None = None
    paths: list[str | ExactCheckPath] = Field(default_factory=list)
    sample: int = DEFAULT_SAMPLE
    canary: Canary | None = None


def kind(opener: Opener, readers: ArchiveReaders) -> Kind:
    shown = from_result("mode", "archive", "files_proven", "bytes_proven", "problems")
    values = {"access": Access.READ, "params": RestoreCheckParams, "present": shown}
    return repository_kind(opener, partial(run, readers=readers), name="restore_check", category="restore", **values)


def archived_paths(paths: Iterable[str | ExactCheckPath]) -> tuple[str, ...]:
    """Given paths as sent by clients, return them in the engine's form. Raise ValueError for invalid base64."""
    return tuple(
        os.fsdecode(text.from_exact(path.path_b64)) if isinstance(path, ExactCheckPath) else path for path in paths
    )


def run(work: RepositoryWork, *, readers: ArchiveReaders) -> Outcome | TryAgain:
    params = work.context.params
    assert isinstance(params, RestoreCheckParams)
    listing = work.engine.list_archives(work.location, ListArchivesRequest(names_only=True))
    step = work.context.step("look", listing, quiet=True)
    if bad := work.ended_without_success(step):
        if isinstance(bad, Outcome):
            return replace(bad, result={**_nothing(params.mode, None), "return_code": step.exit.code})
        return bad
    archive = chosen_archive(read_archives(step.stdout), params)
    if archive is None:
        missing = GONE if params.engine_id else UNKNOWN if params.archive else NO_ARCHIVE
        return Outcome(Status.FAILED, *missing)
    try:
        return _Check(work, params, archive, step.exit.code, readers).run()
    except (InvalidRequest, GarbledOutput) as error:
        return Outcome(Status.FAILED, error.key, str(error), archive_name=archive.name)


def chosen_archive(archives: list[ArchiveInfo], params: RestoreCheckParams) -> ArchiveInfo | None:
    if params.engine_id is not None:
        return next((archive for archive in archives if archive.id == params.engine_id), None)
    if params.archive is not None:
        return next((archive for archive in archives if archive.name == params.archive), None)
    return max(archives, key=lambda archive: archive.start, default=None)


@frozen
class _Selection:
    """The files to read, with the archive's records of them."""

    request: ExtractRequest
    expected: Iterable[FileRecord]
    extent: Extent
    whole: Extent | None
    """Extent of the whole archive, if known."""


class _Check:
    """The check of one archive."""

    def __init__(
        self,
        work: RepositoryWork,
        params: RestoreCheckParams,
        archive: ArchiveInfo,
        list_code: int | None,
        readers: ArchiveReaders,
    ) -> None:
        """`list_code`: exit code of the engine run that listed the archives."""
        self._work = work
        self._list_code = list_code
        self._readers = readers
        self._context = work.context
        self._params = params
        self._archive = archive
        self._address = work.engine.address(archive.name, archive.id)

    def run(self) -> Outcome | TryAgain:
        paths = self._asked_paths()
        wanted = CheckScope(
            exact_paths(paths),
            self._params.sample if self._params.mode == "sample" else None,
            self._context.operation.uuid,
            self._params.mode == "canary",
        )
        try:
            found = self._context.once(
                "chunks", lambda: read_by_chunks(self._work, self._readers, self._archive.id, wanted)
            )
        except Cancelled:
            return self._ended(Status.CANCELLED, None, None, _nothing(self._params.mode, self._archive, "chunks"))
        if "reason" not in found:
            return self._by_chunks(found)
        self._context.log(f"Read by the engine: {found['reason']}.".replace("\n", "\\n"))
        return self._by_engine(paths)

    def _by_engine(self, paths: tuple[str, ...]) -> Outcome | TryAgain:
        request = ListFilesRequest(self._address, paths=paths)
        listing = self._context.step("files", self._work.engine.list_files(self._work.location, request), quiet=True)
        if bad := self._work.ended_without_success(listing):
            return self._without_proof(bad, listing)
        if unsafe := list(islice(unsafe_paths(read_records(listing.stdout)), MOST_UNSAFE)):
            return self._unsafe(unsafe)
        if self._params.mode == "canary":
            return self._canary(list(read_records(listing.stdout)))
        selection = self._select(listing.stdout, paths)
        self._log_extent(selection.extent)
        if not selection.extent.files and self._params.mode != "paths":
            return self._nothing_to_prove(selection.whole, "engine")
        return self._extract(selection)

    def _asked_paths(self) -> tuple[str, ...]:
        if self._params.canary is not None:
            return (self._params.canary.path,)
        return archived_paths(self._params.paths) if self._params.mode == "paths" else ()

    def _select(self, listing: Path, paths: tuple[str, ...]) -> _Selection:
        whole = extent_of(read_records(listing))
        archive = self._address
        if self._params.mode != "sample":
            request = ExtractRequest(archive, paths=paths, dry_run=True, list_files=True)
            known = whole if self._params.mode == "full" else None
            return _Selection(request, read_records(listing), whole, known)
        chosen = choose(read_records(listing), self._params.sample, self._context.operation.uuid)
        patterns = tuple(f"pf:{record.path}" for record in chosen)
        request = ExtractRequest(archive, patterns=patterns, dry_run=True, list_files=True)
        return _Selection(request, chosen, extent_of(chosen), whole)

    def _log_extent(self, extent: Extent) -> None:
        self._context.log(f"Archive {self._archive.name}: {file_count(extent.files)}, {extent.bytes} bytes to be read.")

    # --- proven by chunks -----------------------------------------------------------------------------------------

    def _by_chunks(self, found: Mapping[str, Any]) -> Outcome:
        outcome = self._canary_by_chunks(found) if self._params.mode == "canary" else self._files_by_chunks(found)
        return replace(outcome, ended_at=datetime.fromisoformat(found["at"]))

    def _files_by_chunks(self, found: Mapping[str, Any]) -> Outcome:
        extent = Extent(found["files"], found["bytes"])
        whole = Extent(*found["whole"]) if found["whole"] else None
        self._log_extent(extent)
        if extent.files or self._params.mode == "paths":
            self._log_proven(extent, extent)
        if not extent.files:
            return self._nothing_to_prove(whole, "chunks")
        return self._proven(self._result(extent, whole, extent, (), 0, self._list_code, "chunks"))

    def _canary_by_chunks(self, found: Mapping[str, Any]) -> Outcome:
        canary = self._params.canary
        assert canary is not None
        result = {**_nothing("canary", self._archive, "chunks"), "canary": canary.path, "return_code": self._list_code}
        return self._compare(canary, found["size"], found["size"], found["sha256"], result)

    # --- proven by the engine -------------------------------------------------------------------------------------

    def _extract(self, selection: _Selection) -> Outcome | TryAgain:
        proof = Proof(selection.expected, marked=self._work.engine.features.marks_extracted)
        progress = PhaseProgress(self._context, PHASES)

        def on_event(event: Event) -> None:
            progress.on_event(event)
            proof.on_event(event)

        command = self._work.engine.extract(self._work.location, selection.request)
        # Quiet, because the log of a large archive would contain a line for each of its files.
        step = self._context.step("extract", command, on_event=on_event, quiet=True)
        proof.end(well=step.outcome.status in SUCCEEDED)
        return self._conclude(selection, proof, step)

    def _conclude(self, selection: _Selection, proof: Proof, step: Step) -> Outcome | TryAgain:
        bad = self._work.ended_without_success(step)
        if isinstance(bad, TryAgain):
            return bad
        self._log_findings(selection, proof)
        proven = Extent(proof.files, proof.bytes)
        result = self._result(
            selection.extent, selection.whole, proven, proof.problems, proof.problem_count, step.exit.code, "engine"
        )
        if bad is not None:
            return self._ended(bad.status, bad.error_key, bad.error_message, result)
        if missing := self._missing_paths(proof):
            sentence = f"The archive does not contain {missing[0]}" + (
                f" and {len(missing) - 1} more." if missing[1:] else "."
            )
            return self._ended(Status.FAILED, PATH_MISSING, sentence, result)
        if not selection.extent.files:
            return self._nothing_to_prove(selection.whole, "engine")
        if proof.problem_count or proof.files < selection.extent.files:
            sentence = f"Only {proof.files} of {selection.extent.files} files were verified; see the problems."
            return self._ended(Status.FAILED, "engine.damaged" if proof.problem_count else NOT_PROVEN, sentence, result)
        return self._proven(result)

    def _missing_paths(self, proof: Proof) -> list[str]:
        """Requested paths that matched nothing, for checks of paths.

        With a sample, older engines report every file as unmatched, even those they have read.
        """
        return proof.never_matched if self._params.mode == "paths" else []

    def _log_findings(self, selection: _Selection, proof: Proof) -> None:
        for problem in proof.problems:
            self._context.log(f"{problem['path'] or self._archive.name}: {problem['message']}".replace("\n", "\\n"))
        self._log_proven(Extent(proof.files, proof.bytes), selection.extent)

    def _log_proven(self, proven: Extent, extent: Extent) -> None:
        self._context.log(
            f"Proven: {proven.files} of {extent.files} files, {proven.bytes} of {extent.bytes} bytes.",
        )

    def _result(
        self,
        extent: Extent,
        whole: Extent | None,
        proven: Extent,
        problems: Sequence[Mapping[str, Any]],
        problem_count: int,
        return_code: int | None,
        read_by: ReadBy,
    ) -> dict[str, Any]:
        return {
            "mode": self._params.mode,
            "archive": described(self._archive),
            "files_proven": proven.files,
            "bytes_proven": proven.bytes,
            "files_checked": extent.files,
            "bytes_checked": extent.bytes,
            "files_in_archive": whole.files if whole else None,
            "bytes_in_archive": whole.bytes if whole else None,
            "problems": list(problems),
            "problem_count": problem_count,
            "return_code": return_code,
            "read_by": read_by,
        }

    def _nothing_to_prove(self, whole: Extent | None, read_by: ReadBy) -> Outcome:
        result = {
            **_nothing(self._params.mode, self._archive, read_by),
            "files_in_archive": whole.files if whole else None,
        }
        warning = {"path": None, "message": "The archive contains no file that can be checked; nothing was verified."}
        return Outcome(
            Status.COMPLETED_WITH_WARNINGS, result=result, warnings=(warning,), archive_name=self._archive.name
        )

    def _without_proof(self, bad: Outcome | TryAgain, step: Step) -> Outcome | TryAgain:
        if isinstance(bad, TryAgain):
            return bad
        for error in step.accumulator.errors:
            self._context.log(*log_line(error)[:1])
        result = {**_nothing(self._params.mode, self._archive), "return_code": step.exit.code}
        return self._ended(bad.status, bad.error_key, bad.error_message, result)

    def _unsafe(self, paths: list[str]) -> Outcome:
        """Fail although the content may be intact: it cannot be restored, which is what this check is about."""
        problems = [{"path": path, "message": "Restores do not write this name."} for path in paths]
        result = {**_nothing(self._params.mode, self._archive), "problems": problems, "problem_count": len(problems)}
        sentence = (
            f"The archive contains paths that lead outside the destination, such as {paths[0]!r}. Restores refuse "
            f"these; restore the other paths separately."
        )
        return self._ended(Status.FAILED, UNSAFE, sentence, result)

    # --- a file whose content is known ----------------------------------------------------------------------------

    def _canary(self, records: list[FileRecord]) -> Outcome | TryAgain:
        canary = self._params.canary
        assert canary is not None
        result = {**_nothing("canary", self._archive), "canary": canary.path}
        if len(records) != 1 or not records[0].is_file:
            sentence = f"{canary.path} is not a regular file with its own content in the archive."
            return self._ended(Status.FAILED, PATH_MISSING, sentence, result)
        if records[0].size > LARGEST_CANARY:
            sentence = f"A canary may have at most {LARGEST_CANARY} bytes; check larger files by their paths."
            return self._ended(Status.FAILED, "restore_check.canary_too_large", sentence, result)
        request = ExtractRequest(self._address, paths=(canary.path,), stdout=True)
        step = self._context.step("canary", self._work.engine.extract(self._work.location, request))
        if bad := self._work.ended_without_success(step):
            return self._without_proof(bad, step)
        result = {**result, "return_code": step.exit.code}
        return self._compare(canary, records[0].size, step.stdout.stat().st_size, hash_of(step.stdout), result)

    def _compare(self, canary: Canary, size: int, read: int, found: str, result: dict[str, Any]) -> Outcome:
        """Compare the content. `size`: from the archive's record; `read`: bytes read; `found`: their hash."""
        here = self._work.location.machine is None
        own = hash_of_own_file(canary.path) if here else None  # the file on another machine is unknown
        expected = canary.sha256.lower() if canary.sha256 else own
        result = {**result, "files_checked": 1, "bytes_checked": size}
        if expected is None:
            sentence = f"The expected content of {canary.path} is unknown; provide its sha256."
            return self._ended(Status.FAILED, "restore_check.canary_unknown", sentence, result)
        if found != expected or read != size:
            problem = {"path": canary.path, "message": "Content in the archive does not match the expected hash."}
            result = {**result, "problems": [problem], "problem_count": 1, "sha256": found}
            return self._ended(Status.FAILED, NOT_PROVEN, f"{canary.path}: {problem['message']}", result)
        self._context.log(f"{canary.path}: {size} bytes restored, matching the expected hash.")
        return self._proven({**result, "files_proven": 1, "bytes_proven": size, "sha256": found})

    # --- endings --------------------------------------------------------------------------------------------------

    def _ended(self, status: Status, key: str | None, message: str | None, result: dict[str, Any]) -> Outcome:
        return Outcome(status, key, message, result=result, archive_name=self._archive.name)

    def _proven(self, result: dict[str, Any]) -> Outcome:
        return Outcome(
            Status.COMPLETED,
            result=result,
            archive_name=self._archive.name,
            record=partial(_note, repository_id=self._work.repository.id),
        )


def _nothing(mode: Mode, archive: ArchiveInfo | None, read_by: ReadBy = "engine") -> dict[str, Any]:
    return {
        "mode": mode,
        "archive": described(archive) if archive else None,
        "files_proven": 0,
        "bytes_proven": 0,
        "files_checked": 0,
        "bytes_checked": 0,
        "problems": [],
        "problem_count": 0,
        "read_by": read_by,
    }


def hash_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def hash_of_own_file(path: str) -> str | None:
    """The hash of the file on this machine that an archived path came from; None if there is none to read."""
    try:
        descriptor = os.open("/" + path.lstrip("/"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_CANARY:
            return None
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _note(session: Session, *, repository_id: int) -> None:
    store.note_evidence(session, repository_id, last_restore_check=end_of_work(session))
