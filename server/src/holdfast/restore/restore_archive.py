"""The operation kind `restore`: files of an archive, put into a folder of this machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backup_engine.command import Command
from backup_engine.events import Event
from backup_engine.far.streaming import unpacked_here
from backup_engine.listing import ListedFile, read_listing
from backup_engine.parse import GarbledOutput
from backup_engine.requests import ExportTarRequest, ExtractRequest, InvalidRequest, ListFilesRequest
from holdfast.errors import HoldfastError
from holdfast.kit.text import readable
from holdfast.operations.context import Context, Interrupted, StepResult
from holdfast.operations.kinds import Kind, Outcome, TryAgain
from holdfast.operations.models import Operation
from holdfast.operations.status import LockMode, Status
from holdfast.repositories.location import Opener
from holdfast.repositories.work import RepositoryWork
from holdfast.restore import archived_paths, destination, endings, on_agent, store
from holdfast.restore.destination import PrivateFolder
from holdfast.restore.layout import Placement
from holdfast.restore.move import Move
from holdfast.restore.occupied import Occupied, Unseen
from holdfast.restore.on_machine import MachineRestore
from holdfast.restore.progress import ExtractProgress
from holdfast.restore.schemas import RestoreParams
from holdfast.restore.survey import Survey, survey
from holdfast.restore.verify import Complaints, Plan, Verifier

LIST, EXTRACT = "list", "extract"
PLACE = "place"
BLOCK = 1 << 20


def kind(opener: Opener) -> Kind:
    return Kind(
        name=store.KIND,
        category="restore",
        limit_group="restore",
        lock=LockMode.SHARED,
        params=RestoreParams,
        run=lambda context: _Restore(opener, context).run(),
        on_interrupted=lambda context, interrupted: _Restore(opener, context).interrupted(interrupted),
        present=present,
        agent=on_agent.work(),
    )


def present(operation: Operation) -> dict[str, Any]:
    params = RestoreParams.model_validate(operation.params)
    return {**params.model_dump(mode="json"), "result": operation.result}


class _Restore:
    """One attempt. Every method may be called again for the same attempt after a restart.

    What was found out or done between the engine's runs is kept with `once`, so that a restart neither counts again what
    has been moved since, nor says anything else than before.
    """

    def __init__(self, opener: Opener, context: Context) -> None:
        assert isinstance(context.params, RestoreParams)
        self._work = RepositoryWork.open(opener, context)
        self._context = context
        self._params = context.params
        roots = archived_paths.outermost(archived_paths.inside_archive(self._params.paths))
        self._placement = Placement(tuple(roots), self._params.restore_layout == "contents_only")
        self._destination = archived_paths.destination(self._params.destination)
        self._there: MachineRestore | None = None
        if self._params.destination_type == "ssh":
            self._there = MachineRestore(opener, self._work, self._params, self._placement)

    def run(self) -> Outcome | TryAgain:
        try:
            return self._restore()
        except InvalidRequest as error:
            return endings.refused(error.key, str(error))
        except GarbledOutput as error:
            self._remove_private()
            return endings.refused(error.key, str(error))
        except HoldfastError:
            self._remove_private()
            raise

    def interrupted(self, interrupted: Interrupted) -> Outcome:
        """Whatever runs is only ever interrupted before anything is moved into place."""
        if self._there is not None:
            return self._there.interrupted(interrupted)
        self._remove_private()
        sentence = f"{interrupted.sentence()} Nothing was restored; start the restore again."
        return endings.nothing_restored(Status.FAILED, "operations.interrupted", sentence)

    def _restore(self) -> Outcome | TryAgain:
        if self._there is None and not self._context.has_begun(LIST):
            destination.inspect(self._destination)
        listing = self._context.step(LIST, self._list_command(), quiet=True)
        if bad := self._work.ended_without_success(listing):
            return endings.with_nothing(bad)
        surveyed = self._survey(listing)
        if refusal := endings.refusal(surveyed, self._params):
            return refusal
        if self._params.dry_run:
            self._context.log(endings.dry_run_line(surveyed, readable(self._destination)))
            return endings.dry_run(surveyed)
        if self._there is not None:
            return self._there.run(surveyed)
        return self._extract(listing, surveyed)

    def _extract(self, listing: StepResult, surveyed: Survey) -> Outcome | TryAgain:
        private = self._private(surveyed)
        if not self._context.has_begun(EXTRACT):
            private.make()
            self._sweep(private)
        self._context.log(endings.first_line(surveyed, self._params.archive, readable(self._destination)))
        complaints = Complaints()
        progress = ExtractProgress(self._context.report)

        def hear(event: Event) -> None:
            complaints.hear(event)
            progress.hear(event)

        extracted = self._context.step(EXTRACT, self._extract_command(private, surveyed), on_event=hear)
        if bad := self._work.ended_without_success(extracted):
            private.remove()
            return endings.with_nothing(bad)
        plan = self._plan(listing, surveyed, private, complaints)
        move = Move(self._context, self._params, self._placement, self._destination, private)
        moved = self._context.once("moved", lambda: move.run(plan))
        private.remove()
        return endings.ended(self._context, moved, complaints.attributes)

    # --- what is kept between runs ------------------------------------------------------------------------------------

    def _survey(self, listing: StepResult) -> Survey:
        def look() -> dict[str, Any]:
            occupied = Occupied(self._destination) if self._there is None else Unseen()
            return survey(_items(listing.stdout), self._placement, occupied).to_json()

        return Survey.from_json(self._context.once("survey", look))

    def _private(self, surveyed: Survey) -> PrivateFolder:
        def choose() -> dict[str, Any]:
            return {"base": archived_paths.to_json(self._nearest_folder(surveyed))}

        base = self._context.once(PLACE, choose)["base"]
        return PrivateFolder(archived_paths.from_json(base), self._context.operation.uuid)

    def _nearest_folder(self, surveyed: Survey) -> bytes:
        """The deepest existing folder that everything goes below: what is on its file system can simply be moved."""
        if self._placement.contents_only or not surveyed.above_all:
            return self._destination
        return destination.deepest_folder(self._destination, surveyed.above_all.split(b"/"))

    def _plan(self, listing: StepResult, surveyed: Survey, private: PrivateFolder, complaints: Complaints) -> Plan:
        def verify() -> dict[str, Any]:
            with private.tree() as tree:
                verifier = Verifier(tree, self._placement, Occupied(self._destination), surveyed, complaints)
                return verifier.verify(_items(listing.stdout)).to_json()

        return Plan.from_json(self._context.once("plan", verify))

    # --- the private folder -------------------------------------------------------------------------------------------

    def _sweep(self, private: PrivateFolder) -> None:
        """Remove what restores have left here that were killed together with their machine."""
        with destination.opened(private.base) as base:
            found = destination.left_behind(base)
            with self._context.database.reading() as session:
                over = store.ended(session, found)
            for uuid in over:
                destination.remove_folder(base, found[uuid])

    def _remove_private(self) -> None:
        place = self._context.kept(PLACE)
        if place is not None:
            PrivateFolder(archived_paths.from_json(place["base"]), self._context.operation.uuid).remove()

    # --- the commands -------------------------------------------------------------------------------------------------

    def _list_command(self) -> Command:
        request = ListFilesRequest(self._address(), paths=self._wanted(), exact=True)
        return self._work.engine.list_files(self._work.location, request)

    def _extract_command(self, private: PrivateFolder, surveyed: Survey) -> Command:
        excluded = tuple(archived_paths.for_engine(path) for path in surveyed.links_in_the_way)
        engine, location = self._work.engine, self._work.location
        if location.machine is not None:
            exported = ExportTarRequest(self._address(), self._wanted(), excluded_paths=excluded, progress=True)
            return unpacked_here(engine.export_tar(location, exported), private.tree_path)
        request = ExtractRequest(
            archive=self._address(),
            paths=self._wanted(),
            destination=archived_paths.for_engine(private.tree_path),
            excluded_paths=excluded,
            sparse=True,
            without_flags=True,
        )
        return engine.extract(location, request)

    def _address(self) -> str:
        return self._work.engine.address(self._params.archive, self._params.engine_id)

    def _wanted(self) -> tuple[str, ...]:
        return tuple(archived_paths.for_engine(path) for path in self._placement.roots)


def _items(listing: Path) -> Iterator[ListedFile]:
    with listing.open("rb") as file:
        yield from read_listing(iter(lambda: file.read(BLOCK), b""))
