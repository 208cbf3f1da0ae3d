"""The effect of a restore, determined by the engine inside a request."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

from backup_engine.command import Command
from backup_engine.guarded import GuardedTargets
from backup_engine.listing import ListedFile, read_listing
from backup_engine.parse import GarbledOutput
from backup_engine.requests import InvalidRequest, ListFilesRequest
from backup_jobs import paths as job_paths
from backup_jobs.paths import shown
from backup_jobs.restore import endings
from backup_jobs.restore.layout import Placement
from backup_jobs.restore.occupied import Occupied, Unseen
from backup_jobs.restore.survey import Survey, Surveyor
from holdfast.api.parts import Part
from holdfast.errors import Unprocessable
from holdfast.repositories.location import Opener
from holdfast.restore import archived_paths, errors
from holdfast.restore.occupied_there import OccupiedThere
from holdfast.restore.schemas import RestorePreview, ShownConflict, ShownFile
from holdfast.restore.source import BrokenOff, Source
from holdfast.restore.start import Wanted
from holdfast.runner.inline import InlineCalls

PREVIEW_SECONDS = 120.0
MOST_SAMPLES = 20


@dataclass(frozen=True, slots=True)
class Previews:
    inline: InlineCalls
    opener: Opener

    def preview(self, wanted: Wanted) -> RestorePreview:
        """Raise NotFound for a missing path, Locked, TooLarge, or the refusal of the engine or machine."""
        if wanted.params.destination_type == "agent":
            raise errors.no_preview_there()
        roots = archived_paths.inside_archive(wanted.params.paths)
        placement = Placement(tuple(roots), wanted.params.restore_layout == "contents_only")
        destination = archived_paths.destination(wanted.params.destination)
        sample: list[ListedFile] = []
        with ExitStack() as stack:
            there = self._there(wanted, placement, destination, stack)
            is_here = wanted.may_look and there is None
            surveyor = Surveyor(
                placement, Occupied(destination) if is_here else Unseen(), GuardedTargets(wanted.guard, destination)
            )
            source = Source(self.inline, wanted.repository, self._command(wanted, roots), threading.Event())
            stack.enter_context(closing(source))
            for item in _items(source):
                surveyor.add(item)
                if there is not None:
                    there.add(item)
                if len(sample) < MOST_SAMPLES:
                    sample.append(item)
            surveyed = surveyor.finished()
            if there is not None:
                there.add_to(surveyed)
        return _answer(surveyed, sample, looked=wanted.may_look)

    def _there(
        self, wanted: Wanted, placement: Placement, destination: bytes, stack: ExitStack
    ) -> OccupiedThere | None:
        """The inspector of the destination, where that is on another machine."""
        number = wanted.params.destination_machine_id
        if number is None or not wanted.may_look:
            return None
        there = OccupiedThere(self.opener.machines.machine(number), placement, destination)
        return stack.enter_context(closing(there))

    def _command(self, wanted: Wanted, roots: list[bytes]) -> Command:
        paths = tuple(job_paths.for_engine(path) for path in roots)
        engine, location = self.opener.engine(wanted.repository), self.opener.location(wanted.repository)
        try:
            archive = engine.address(wanted.params.archive, wanted.params.engine_id)
            return engine.list_files(
                location,
                ListFilesRequest(
                    archive, paths=paths, exact=True, excluded_trees=archived_paths.without(wanted.params)
                ),
            )
        except InvalidRequest as error:
            raise Unprocessable(error.key, str(error)) from error


PREVIEWS = Part[Previews]("restore_previews")


def _items(source: Source) -> Iterator[ListedFile]:
    deadline = time.monotonic() + PREVIEW_SECONDS

    def blocks() -> Iterator[bytes]:
        for block in source.blocks():
            if time.monotonic() > deadline:
                raise errors.listing_too_large()
            yield block

    try:
        yield from read_listing(blocks())
    except BrokenOff as error:
        raise source.refusal() from error
    except GarbledOutput as error:
        raise Unprocessable(error.key, str(error)) from error


def _answer(surveyed: Survey, sample: list[ListedFile], *, looked: bool) -> RestorePreview:
    if surveyed.missing:
        raise errors.path_not_found([shown(path)["path"] for path in surveyed.missing])
    if fault := endings.fault(surveyed) or endings.forbidden(surveyed):
        raise Unprocessable(*fault)
    return RestorePreview(
        files=surveyed.files,
        bytes=surveyed.size,
        conflicts=[ShownConflict.model_validate(conflict) for conflict in surveyed.shown_conflicts()],
        conflict_count=surveyed.conflict_count,
        conflicts_known=looked,
        files_passed_over=surveyed.own_files,
        sample=[
            ShownFile.model_validate({**shown(item.path), "type": item.type, "size": item.size}) for item in sample
        ],
    )
