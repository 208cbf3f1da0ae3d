"""Previews of restores, computed by the engine within a request."""

import base64
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

from backup_engine.chunks.commands import narrowed
from backup_engine.command import Command
from backup_engine.frozen import frozen
from backup_engine.listing import ListedFile, read_listing
from backup_engine.protected_places import ProtectedTargets
from backup_engine.requests import InvalidRequest, ListFilesRequest
from backup_engine.results import GarbledOutput
from backup_jobs import paths as job_paths
from backup_jobs.paths import shown
from backup_jobs.restore import endings
from backup_jobs.restore.existing_files import ExistingFiles, UnknownFiles, free_bytes
from backup_jobs.restore.layout import Placement
from backup_jobs.restore.survey import Survey, Surveyor
from holdfast.api.parts import Part
from holdfast.downloads import errors as download_errors
from holdfast.downloads.engine_output import ClientGone, EngineOutput, IncompleteOutput
from holdfast.errors import HoldfastError, TooLarge, Unprocessable, service_stops
from holdfast.repositories import archived_paths
from holdfast.repositories.location import Opener
from holdfast.restore import store
from holdfast.restore.destination import normal_destination
from holdfast.restore.existing_files_there import ExistingFilesThere
from holdfast.restore.schemas import Overwrite, RestorePreview, ShownConflict, ShownFile
from holdfast.restore.start import ValidRestore
from holdfast.runner.inline import InlineCalls
from holdfast.storage.session import Database

PREVIEW_SECONDS = 120.0
MOST_SAMPLES = 20


@frozen
class Effect:
    """What is known about a restore besides the listing."""

    overwrite: Overwrite
    looked: bool
    free_bytes: int | None
    bytes_per_second: float | None

    def outcome(self, files: int, existing: int) -> dict[str, int | None]:
        """Return how many files would be new, replaced and kept."""
        if not self.looked:
            return {"would_write": None, "would_replace": None, "would_keep": None}
        if self.overwrite == "fail" and existing:
            return {"would_write": 0, "would_replace": 0, "would_keep": existing}
        replaces = self.overwrite == "replace"
        return {
            "would_write": files - existing,
            "would_replace": existing if replaces else 0,
            "would_keep": 0 if replaces else existing,
        }


@frozen
class Previews:
    database: Database
    inline: InlineCalls
    opener: Opener

    def preview(self, wanted: ValidRestore) -> RestorePreview:
        """Preview a restore. Raise NotFound for a missing path, Locked, TooLarge, or an error of engine or machine."""
        try:
            return self._preview(wanted)
        except ClientGone:  # nobody watches for one: the service stops
            raise service_stops() from None

    def _preview(self, wanted: ValidRestore) -> RestorePreview:
        roots = archived_paths.inside_archive(wanted.params.paths)
        placement = Placement(tuple(roots), wanted.params.restore_layout == "contents_only")
        destination = normal_destination(wanted.params.destination)
        sample: list[ListedFile] = []
        with ExitStack() as stack:
            there = self._there(wanted, placement, destination, stack)
            is_here = wanted.may_look and wanted.params.destination_type == "local"
            surveyor = Surveyor(
                placement,
                ExistingFiles(destination) if is_here else UnknownFiles(),
                ProtectedTargets(wanted.guard, destination),
            )
            source = EngineOutput(self.inline, wanted.repository, self._command(wanted, roots), self.inline.stopping)
            stack.enter_context(closing(source))
            for item in _items(source):
                surveyor.add(item)
                if there is not None:
                    there.add(item)
                if len(sample) < MOST_SAMPLES:
                    sample.append(item)
            surveyed = surveyor.finished()
            free = there.add_to(surveyed) if there is not None else self._free(wanted, destination)
        with self.database.reading() as session:
            speed = store.usual_speed(session, wanted.repository.id)
        looked = is_here or there is not None
        return _answer(surveyed, sample, Effect(wanted.params.overwrite, looked, free, speed))

    def _free(self, wanted: ValidRestore, destination: bytes) -> int | None:
        """Return the free bytes at the destination; None if unknown, or not for this caller to know."""
        if not wanted.may_look:
            return None
        if wanted.params.destination_type == "local":
            return free_bytes(destination)
        question = {"ask": "probe", "path": base64.b64encode(destination).decode()}
        try:
            found = self.opener.agents.look(wanted.params.destination_machine_id or 0, question).document()
        except (HoldfastError, ValueError):
            return None  # the agent is offline or too old; the restore itself will report it
        free = found.get("free_bytes") if isinstance(found, dict) else None
        return free if isinstance(free, int) and free >= 0 else None

    def _there(
        self, wanted: ValidRestore, placement: Placement, destination: bytes, stack: ExitStack
    ) -> ExistingFilesThere | None:
        """Return what inspects a destination on an ssh machine; None for other destinations."""
        number = wanted.params.destination_machine_id
        if number is None or wanted.params.destination_type != "ssh" or not wanted.may_look:
            return None
        there = ExistingFilesThere(self.opener.machines.machine(number), placement, destination)
        return stack.enter_context(closing(there))

    def _command(self, wanted: ValidRestore, roots: list[bytes]) -> Command:
        paths = tuple(job_paths.for_engine(path) for path in roots)
        engine, location = self.opener.engine(wanted.repository), self.opener.location(wanted.repository)
        try:
            archive = engine.address(wanted.params.archive, wanted.params.engine_id)
            request = ListFilesRequest(archive, paths=paths, exact=True, excluded_trees=wanted.params.excluded_trees)
            return narrowed(engine.list_files(location, request), paths)
        except InvalidRequest as error:
            raise Unprocessable(error.key, str(error)) from error


PREVIEWS = Part[Previews]("restore_previews")


def _items(source: EngineOutput) -> Iterator[ListedFile]:
    deadline = time.monotonic() + PREVIEW_SECONDS

    def blocks() -> Iterator[bytes]:
        for block in source.blocks():
            if time.monotonic() > deadline:
                raise TooLarge(
                    "restore.listing_too_large", "The archive is too large for a preview; start a dry run instead."
                )
            yield block

    try:
        yield from read_listing(blocks())
    except IncompleteOutput as error:
        raise source.refusal() from error
    except GarbledOutput as error:
        raise Unprocessable(error.key, str(error)) from error


def _answer(surveyed: Survey, sample: list[ListedFile], effect: Effect) -> RestorePreview:
    if surveyed.missing:
        raise download_errors.path_not_found([shown(path)["path"] for path in surveyed.missing])
    if fault := endings.fault(surveyed) or endings.forbidden(surveyed):
        raise Unprocessable(*fault)
    return RestorePreview(
        files=surveyed.files,
        bytes=surveyed.size,
        conflicts=[ShownConflict.model_validate(conflict) for conflict in surveyed.shown_conflicts()],
        conflict_count=surveyed.conflict_count,
        conflicts_known=effect.looked,
        **effect.outcome(surveyed.files, surveyed.occupied_files),
        seconds_estimate=round(surveyed.size / effect.bytes_per_second, 1) if effect.bytes_per_second else None,
        free_bytes=effect.free_bytes,
        files_passed_over=surveyed.own_files,
        sample=[
            ShownFile.model_validate({**shown(item.path), "type": item.type, "size": item.size}) for item in sample
        ],
    )
