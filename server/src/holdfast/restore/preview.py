"""What a restore would do, asked of the engine inside a request."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

from backup_engine.command import Command
from backup_engine.listing import ListedFile, read_listing
from backup_engine.parse import GarbledOutput
from backup_engine.requests import InvalidRequest, ListFilesRequest
from holdfast.errors import Unprocessable
from holdfast.repositories.location import Opener
from holdfast.restore import archived_paths, endings, errors
from holdfast.restore.archived_paths import shown
from holdfast.restore.layout import Placement
from holdfast.restore.occupied import Occupied, Unseen
from holdfast.restore.occupied_there import OccupiedThere
from holdfast.restore.schemas import RestorePreview, ShownConflict, ShownFile
from holdfast.restore.source import BrokenOff, Source
from holdfast.restore.start import Wanted
from holdfast.restore.survey import Survey, Surveyor
from holdfast.runner.inline import InlineCalls

PREVIEW_SECONDS = 120.0
MOST_SAMPLES = 20


@dataclass(frozen=True, slots=True)
class Previews:
    inline: InlineCalls
    opener: Opener

    def preview(self, wanted: Wanted) -> RestorePreview:
        """Raise NotFound for a path that is not there, Locked, TooLarge, or what engine or machine refuse."""
        if wanted.params.destination_type == "agent":
            raise errors.no_preview_there()
        roots = archived_paths.inside_archive(wanted.params.paths)
        placement = Placement(tuple(roots), wanted.params.restore_layout == "contents_only")
        destination = archived_paths.destination(wanted.params.destination)
        sample: list[ListedFile] = []
        with ExitStack() as stack:
            there = self._there(wanted, placement, destination, stack)
            surveyor = Surveyor(placement, Occupied(destination) if there is None else Unseen())
            source = Source(self.inline, wanted.repository, self._command(wanted, roots), threading.Event())
            stack.enter_context(closing(source))
            for item in _items(source):
                surveyor.hear(item)
                if there is not None:
                    there.hear(item)
                if len(sample) < MOST_SAMPLES:
                    sample.append(item)
            surveyed = surveyor.finished()
            if there is not None:
                there.add_to(surveyed)
        return _answer(surveyed, sample)

    def _there(
        self, wanted: Wanted, placement: Placement, destination: bytes, stack: ExitStack
    ) -> OccupiedThere | None:
        """What looks at the destination, where that is not here."""
        number = wanted.params.destination_machine_id
        if number is None:
            return None
        there = OccupiedThere(self.opener.machines.machine(number), placement, destination)
        return stack.enter_context(closing(there))

    def _command(self, wanted: Wanted, roots: list[bytes]) -> Command:
        paths = tuple(archived_paths.for_engine(path) for path in roots)
        engine, location = self.opener.engine(wanted.repository), self.opener.location(wanted.repository)
        try:
            archive = engine.address(wanted.params.archive, wanted.params.engine_id)
            return engine.list_files(location, ListFilesRequest(archive, paths=paths, exact=True))
        except InvalidRequest as error:
            raise Unprocessable(error.key, str(error)) from error


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


def _answer(surveyed: Survey, sample: list[ListedFile]) -> RestorePreview:
    if surveyed.missing:
        raise errors.path_not_found([shown(path)["path"] for path in surveyed.missing])
    if fault := endings.fault(surveyed):
        raise Unprocessable(*fault)
    return RestorePreview(
        files=surveyed.files,
        bytes=surveyed.size,
        conflicts=[ShownConflict.model_validate(conflict) for conflict in surveyed.shown_conflicts()],
        conflict_count=surveyed.conflict_count,
        sample=[
            ShownFile.model_validate({**shown(item.path), "type": item.type, "size": item.size}) for item in sample
        ],
    )
