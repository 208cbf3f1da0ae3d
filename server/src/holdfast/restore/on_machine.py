"""A restore to an ssh machine: extracted into a private folder there by the engine that runs there, or poured into it from
wherever the engine runs; and then moved into place.

Moving is the work of the agent's own file for it (`backup_agent.private_tree`), which needs nothing but Python: its text is
handed to the Python of that machine.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from backup_agent import private_tree
from backup_engine.command import Command, Machine
from backup_engine.events import Event
from backup_engine.far.streaming import unpacked_there
from backup_engine.requests import ExportTarRequest, ExtractRequest
from holdfast.errors import HoldfastError, Unprocessable
from holdfast.kit.text import readable
from holdfast.operations.context import Context, Interrupted, StepResult
from holdfast.operations.kinds import Outcome, TryAgain
from holdfast.operations.status import Status
from holdfast.repositories.location import Opener, runs_on
from holdfast.repositories.work import SUCCEEDED, RepositoryWork, warnings_of
from holdfast.restore import archived_paths, endings, errors
from holdfast.restore.layout import Placement
from holdfast.restore.progress import ExtractProgress
from holdfast.restore.schemas import RestoreParams
from holdfast.restore.survey import MOST_SHOWN, Survey
from holdfast.restore.verify import ABOUT_ATTRIBUTES, LINK_IN_THE_WAY

MAKE, EXTRACT, PLACE, REMOVE = "make", "extract", "place", "remove"
MAIN = """

import base64
import json
import sys


def shown(named):
    return [
        {"path": path.decode("utf-8", "replace"), "path_b64": base64.b64encode(path).decode(), "reason": reason}
        for path, reason in named
    ]


def moved(tree, overwrite, roots):
    files, size = tree.count()
    conflicts = tree.conflicts(roots) if overwrite == "fail" else []
    if conflicts:
        return {"conflict_count": len(conflicts), "conflicts": shown(conflicts[:1000])}
    placed = tree.place(roots, overwrite, lambda: False)
    return {
        "files_restored": files - placed.skipped.files - placed.failed.files,
        "bytes_restored": size - placed.skipped.size - placed.failed.size,
        "files_skipped": placed.skipped.files,
        "bytes_skipped": placed.skipped.size,
        "files_failed": placed.failed.files,
        "bytes_failed": placed.failed.size,
        "skipped": shown(placed.skipped.named),
        "failed": shown(placed.failed.named),
    }


def main(verb, key, overwrite, destination, *roots):
    tree = PrivateTree(base64.b64decode(destination), key)
    try:
        if verb == "make":
            tree.make()
            return {}
        if verb == "place":
            answer = moved(tree, overwrite, tuple(map(base64.b64decode, roots)))
            tree.remove()
            return answer
        tree.remove()
        return {}
    except DestinationUnusable as error:
        return {"unusable": str(error)}


print(json.dumps(main(*sys.argv[1:])))
"""
"""What is said to the file that moves."""


class MachineRestore:
    """The part of a restore that happens on the machine. Its methods may be called again after a restart."""

    def __init__(self, opener: Opener, work: RepositoryWork, params: RestoreParams, placement: Placement) -> None:
        assert params.destination_machine_id is not None
        self._work = work
        self._context: Context = work.context
        self._params = params
        self._placement = placement
        self._destination = archived_paths.destination(params.destination)
        self._tree = private_tree.PrivateTree(self._destination, self._context.operation.uuid)
        self._machine: Machine = opener.machines.machine(params.destination_machine_id)

    def run(self, surveyed: Survey) -> Outcome | TryAgain:
        if self._machine.python is None:
            raise errors.python_missing()
        made = self._placing(MAKE)
        if "unusable" in made:
            return endings.refused("restore.destination_unusable", made["unusable"])
        place = f"{self._machine.name}:{readable(self._destination)}"
        self._context.log(endings.first_line(surveyed, self._params.archive, place))
        progress = ExtractProgress(self._context.report)

        def hear(event: Event) -> None:
            progress.hear(event)

        extracted = self._context.step(EXTRACT, self._extract_command(surveyed), on_event=hear)
        if bad := self._work.ended_without_success(extracted):
            self.remove()
            return endings.with_nothing(bad)
        return self._ended(extracted, surveyed, self._placing(PLACE))

    def interrupted(self, interrupted: Interrupted) -> Outcome:
        if interrupted.step == PLACE:
            sentence = f"{interrupted.sentence()} Some files may be in place already; start the restore again."
            return Outcome(Status.FAILED, "operations.interrupted", sentence)
        self.remove()
        sentence = f"{interrupted.sentence()} Nothing was restored; start the restore again."
        return endings.nothing_restored(Status.FAILED, "operations.interrupted", sentence)

    def remove(self) -> None:
        """Take the private folder away again, as far as the machine lets us."""
        try:
            self._placing(REMOVE)
        except (HoldfastError, Interrupted):
            self._context.log(f"The folder {readable(self._tree.path)} is left on the machine.")

    def _placing(self, verb: str) -> dict[str, Any]:
        step = self._context.step(verb, self._placing_command(verb), despite_cancel=verb == REMOVE, quiet=True)
        if step.outcome.status not in SUCCEEDED:
            raise Unprocessable(
                step.outcome.error_key or "engine.failed", step.outcome.message or "The machine could not do it."
            )
        answer: dict[str, Any] = json.loads(step.stdout.read_bytes())
        return answer

    def _placing_command(self, verb: str) -> Command:
        script = Path(private_tree.__file__).read_text() + MAIN
        roots = self._placement.roots if self._placement.contents_only else ()
        words = (verb, self._context.operation.uuid, self._params.overwrite, *_exact((self._destination, *roots)))
        argv = (str(self._machine.python), "-I", "-S", "-c", script, *words)
        return Command(argv, {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}, machine=self._machine)

    def _extract_command(self, surveyed: Survey) -> Command:
        wanted = tuple(archived_paths.for_engine(path) for path in self._placement.roots)
        excluded = tuple(archived_paths.for_engine(path) for path in surveyed.links_in_the_way)
        engine, location = self._work.engine, self._work.location
        archive = engine.address(self._params.archive, self._params.engine_id)
        if runs_on(self._work.repository) != self._params.destination_machine_id:
            exported = ExportTarRequest(archive, wanted, excluded_paths=excluded, progress=True)
            return unpacked_there(engine.export_tar(location, exported), self._machine, self._tree.path)
        request = ExtractRequest(
            archive,
            wanted,
            destination=archived_paths.for_engine(self._tree.path),
            excluded_paths=excluded,
            sparse=True,
            without_flags=True,
        )
        return engine.extract(location, request)

    def _ended(self, extracted: StepResult, surveyed: Survey, account: dict[str, Any]) -> Outcome:
        result = {**endings.NOTHING, **account, "special_files": surveyed.special}
        warnings = warnings_of(extracted.accumulator)
        if result["conflict_count"]:
            return endings.conflicting(result["conflict_count"], result["conflicts"])
        _add_lost(result, surveyed, warnings)
        self._context.log(f"Restored {result['files_restored']} files ({result['bytes_restored']} bytes).")
        if result["files_skipped"]:
            self._context.log(f"Skipped, because something is there already: {result['files_skipped']} files.")
        if result["files_failed"]:
            first = f"; the first: {archived_paths.describe(result['failed'][0])}" if result["failed"] else ""
            sentence = f"{result['files_failed']} files were not restored{first}."
            return Outcome(Status.FAILED, "restore.incomplete", sentence, result=result, warnings=warnings)
        if surveyed.special:
            warnings = (*warnings, {"path": None, "message": f"{surveyed.special} FIFOs or devices are not restored."})
        warned = extracted.outcome.status == "completed_with_warnings" or bool(surveyed.special)
        status = Status.COMPLETED_WITH_WARNINGS if warned else Status.COMPLETED
        return Outcome(status, result=result, warnings=warnings if warned else ())


def _add_lost(result: dict[str, Any], surveyed: Survey, warnings: Iterable[Mapping[str, Any]]) -> None:
    """Count what never came into the private folder as failed: by the listing, and named where the engine named it."""
    lost = [
        {"path": warning["path"], "reason": warning["message"]}
        for warning in warnings
        if warning["path"] and not ABOUT_ATTRIBUTES.search(warning["message"])
    ]
    links = [{**archived_paths.shown(path), "reason": LINK_IN_THE_WAY} for path in surveyed.links_in_the_way]
    arrived = result["files_restored"] + result["files_skipped"] + result["files_failed"]
    missing = max(len(lost), surveyed.files - len(links) - arrived)
    result["files_failed"] += missing + len(links)
    result["failed"] = [*result["failed"], *lost, *links][:MOST_SHOWN]


def _exact(paths: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(base64.b64encode(path).decode() for path in paths)
