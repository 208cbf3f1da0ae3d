"""`restore.extract`: restore files of an archive into a folder on the host's machine.

Files are extracted into a private folder, compared with the archive's listing, and only then moved into place.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from backup_engine.chunks.commands import narrowed
from backup_engine.command import Command
from backup_engine.events import Event
from backup_engine.extraction_check import PathWarnings
from backup_engine.far.streaming import unpacked_here
from backup_engine.listing import ListedFile, read_listing
from backup_engine.protected_places import ProtectedTargets
from backup_engine.requests import ExportTarRequest, ExtractRequest, InvalidRequest, ListFilesRequest
from backup_engine.results import GarbledOutput
from backup_jobs.endings import Ended, Failed, Stopped
from backup_jobs.host import Interrupted, Step
from backup_jobs.paths import ancestors, for_engine, from_json, readable, to_json
from backup_jobs.restore import endings
from backup_jobs.restore.existing_files import ExistingFiles, UnknownFiles
from backup_jobs.restore.layout import Placement
from backup_jobs.restore.move import Move
from backup_jobs.restore.place import Refused, RestoreWork
from backup_jobs.restore.private_tree import (
    FORBIDDEN,
    DestinationForbidden,
    DestinationUnusable,
    PrivateTree,
    deepest_folder,
)
from backup_jobs.restore.progress import ExtractProgress
from backup_jobs.restore.survey import Survey, survey
from backup_jobs.restore.verify import Plan, Verifier
from backup_jobs.work import ended_without_success
from backup_protocol import RestoreBlock

LIST, EXTRACT, PLACE = "list", "extract", "place"
BLOCK = 1 << 20
LAYOUTS = frozenset({"preserve_path", "contents_only"})
OVERWRITES = frozenset({"skip", "replace", "fail"})


def run(work: RestoreWork) -> Ended:
    return Restore(work).run()


def interrupted(work: RestoreWork, interrupted: Interrupted) -> Ended:
    return Restore(work).interrupted(interrupted)


class Restore:
    """One attempt at a restore. After a restart, every method may be called again for the same attempt.

    Results between engine runs are stored with `once`. So a restart neither counts files again that were moved since,
    nor changes what is reported.
    """

    def __init__(self, work: RestoreWork) -> None:
        require_known_words(work.block)
        self.work = work
        self.host = work.host
        self.block = work.block
        self.destination = destination_of(work.block)
        self.placement = Placement(paths_of(work.block), work.block.restore_layout == "contents_only")

    def run(self) -> Ended:
        try:
            return self._restored()
        except Refused as error:
            self.remove_private()
            return Failed(error.key, str(error), details=endings.NOTHING)
        except (DestinationUnusable, GarbledOutput, InvalidRequest) as error:
            self.remove_private()
            return endings.refused(error.key, str(error))

    def interrupted(self, interrupted: Interrupted) -> Ended:
        """Fail the restore: the engine is interrupted only before files are moved, and restores never restart
        automatically.
        """
        self.remove_private()
        if self.host.is_cancelled():
            return Stopped(details=endings.NOTHING)
        return endings.interrupted(interrupted.sentence())

    def _restored(self) -> Ended:
        if not self.host.has_begun(LIST):
            self.require_destination()
        listing = self.host.step(LIST, self._list_command(), quiet=True)
        if bad := ended_without_success(self.host, listing):
            return endings.with_nothing(bad)
        surveyed = self._surveyed(listing)
        if refusal := endings.refusal(surveyed, self.block.overwrite, dry_run=self.block.dry_run):
            return refusal
        self.work.place.require_targets(self.destination, self._targets(listing))
        if self.block.dry_run:
            self.host.log(endings.dry_run_line(surveyed, readable(self.destination)))
            return endings.dry_run(surveyed)
        return self.extracted(surveyed, lambda: items_of(listing.stdout))

    def require_destination(self) -> None:
        self.work.place.require(self.destination)
        if self.work.place.guard.holds(self.destination):
            raise DestinationForbidden(FORBIDDEN)

    def existing(self) -> ExistingFiles | UnknownFiles:
        return ExistingFiles(self.destination)

    def extracted(self, surveyed: Survey, listed: Callable[[], Iterable[ListedFile]]) -> Ended:
        """Extract, verify and move. `listed` rereads the archive's listing."""
        private = self._private(surveyed)
        if not self.host.has_begun(EXTRACT):
            private.make()
            self.work.place.remove_leftovers(private)
        self.host.log(endings.first_line(surveyed, self.block.archive, readable(self.destination)))
        path_warnings, progress = PathWarnings(), ExtractProgress(self.host.report)

        def on_event(event: Event) -> None:
            path_warnings.on_event(event)
            progress.on_event(event)

        step = self.host.step(EXTRACT, self._extract_command(private, surveyed), on_event=on_event)
        if bad := ended_without_success(self.host, step):
            private.remove()
            return endings.with_nothing(bad)
        plan = self.planned(private, lambda: self._verified(private, surveyed, path_warnings, listed()))
        return self.moved(private, plan, step, path_warnings.attributes)

    def planned(self, private: PrivateTree, verify: Callable[[], Plan]) -> Plan:
        """The files to move, determined once, before any is moved. Raise Refused."""

        def look() -> dict[str, Any]:
            plan = verify()
            roots = self.placement.roots if self.placement.contents_only else ()
            self.work.place.require_tree(private, self.destination, roots)
            return plan.to_json()

        return Plan.from_json(self.host.once("plan", look))

    def moved(
        self,
        private: PrivateTree,
        plan: Plan,
        step: Step | None,
        attributes: Iterable[str],
        warnings: Iterable[Mapping[str, Any]] = (),
    ) -> Ended:
        move = Move(self.host, self.block.overwrite, self.placement, private)
        account = self.host.once("moved", lambda: move.run(plan))
        private.remove()
        return endings.ended(self.host, step, account, attributes, warnings)

    # --- state kept between runs ------------------------------------------------------------------------------------

    def _surveyed(self, listing: Step) -> Survey:
        def look() -> dict[str, Any]:
            items = items_of(listing.stdout)
            return survey(items, self.placement, self.existing(), self.protected()).to_json()

        return Survey.from_json(self.host.once("survey", look))

    def _private(self, surveyed: Survey) -> PrivateTree:
        def choose() -> dict[str, Any]:
            return {"base": to_json(self._nearest_folder(surveyed))}

        return self.private_in(from_json(self.host.once(PLACE, choose)["base"]))

    def private_in(self, base: bytes) -> PrivateTree:
        return PrivateTree(base, self.work.place.key, self.work.place.guard, self.destination)

    def _nearest_folder(self, surveyed: Survey) -> bytes:
        """The deepest existing folder above all targets; files on its file system can simply be renamed."""
        if self.placement.contents_only or not surveyed.above_all:
            return self.destination
        return deepest_folder(self.destination, surveyed.above_all.split(b"/"))

    def _verified(
        self, private: PrivateTree, surveyed: Survey, path_warnings: PathWarnings, items: Iterable[ListedFile]
    ) -> Plan:
        with private.tree() as tree:
            links = surveyed.links_in_the_way
            there = ExistingFiles(self.destination)
            return Verifier(tree, self.placement, there, links, path_warnings, self.protected()).verify(items)

    def protected(self) -> ProtectedTargets:
        return ProtectedTargets(self.work.place.guard, self.destination)

    def remove_private(self) -> None:
        kept = self.host.kept(PLACE)
        if kept is not None:
            self.private_in(from_json(kept["base"])).remove()

    def _targets(self, listing: Step) -> Iterator[bytes]:
        """The target of each listed item, relative to the destination."""
        for item in items_of(listing.stdout):
            target = self.placement.target(item.path, is_directory=item.is_directory)
            if target is not None:
                yield target

    # --- the commands -------------------------------------------------------------------------------------------------

    def _list_command(self) -> Command:
        request = ListFilesRequest(self.address(), paths=self.wanted(), exact=True, excluded_trees=self.without())
        return narrowed(self.work.engine.list_files(self.work.location, request), self.wanted())

    def _extract_command(self, private: PrivateTree, surveyed: Survey) -> Command:
        if self.work.location.machine is not None:  # the engine runs elsewhere: its export is unpacked here
            exported = self.export_request(surveyed)
            export = narrowed(self.work.engine.export_tar(self.work.location, exported), self.wanted())
            return unpacked_here(export, private.path)
        command = self.work.engine.extract(self.work.location, self.extract_request(private.path, surveyed))
        return narrowed(command, self.wanted())

    def export_request(self, surveyed: Survey) -> ExportTarRequest:
        return ExportTarRequest(
            self.address(),
            self.wanted(),
            excluded_paths=tuple(map(for_engine, surveyed.links_in_the_way)),
            excluded_trees=self.without(),
            progress=True,
        )

    def extract_request(self, destination: bytes, surveyed: Survey) -> ExtractRequest:
        return ExtractRequest(
            self.address(),
            self.wanted(),
            destination=for_engine(destination),
            excluded_paths=tuple(map(for_engine, surveyed.links_in_the_way)),
            excluded_trees=self.without(),
            sparse=True,
            without_flags=True,
        )

    def address(self) -> str:
        return self.work.engine.address(self.block.archive, self.block.archive_id)

    def wanted(self) -> tuple[str, ...]:
        return tuple(map(for_engine, self.placement.roots))

    def without(self) -> tuple[str, ...]:
        """Folders to leave out because the requesting user may not read them."""
        return tuple(for_engine(from_json(name)) for name in self.block.without)


def items_of(listing: Path) -> Iterator[ListedFile]:
    with listing.open("rb") as file:
        yield from read_listing(iter(lambda: file.read(BLOCK), b""))


def require_known_words(block: RestoreBlock) -> None:
    if block.restore_layout not in LAYOUTS or block.overwrite not in OVERWRITES:
        raise InvalidRequest("The restore has an unknown layout or overwrite mode.")


def destination_of(block: RestoreBlock) -> bytes:
    """Decode and normalise the destination. Raise InvalidRequest unless it is an absolute path without `..`."""
    try:
        path = from_json(block.destination)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest("The destination of the restore cannot be decoded.") from error
    parts = path.split(b"/")
    if not path.startswith(b"/") or b".." in parts:
        raise InvalidRequest("The destination of a restore must be an absolute path without '..'.")
    return b"/" + b"/".join(part for part in parts if part not in (b"", b"."))


def paths_of(block: RestoreBlock) -> tuple[bytes, ...]:
    """The wanted paths as bytes, none below another. Raise InvalidRequest for a path that leads outside the archive."""
    found = sorted({_path(value) for value in block.paths})
    given = set(found)
    return tuple(path for path in found if not any(above in given for above in ancestors(path)))


def _path(value: Any) -> bytes:
    try:
        raw = base64.b64decode(value["path_b64"], validate=True) if isinstance(value, dict) else value.encode()
    except (KeyError, TypeError, AttributeError, binascii.Error, ValueError) as error:
        raise InvalidRequest("A path of the restore cannot be decoded.") from error
    parts = [part for part in raw.split(b"/") if part]
    if not parts or b"\0" in raw or any(part in (b".", b"..") for part in parts):
        raise InvalidRequest("A path of the restore is empty or leads outside the archive.")
    return b"/".join(parts)
