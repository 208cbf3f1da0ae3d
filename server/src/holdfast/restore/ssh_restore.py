"""Restores to an ssh machine. The files are extracted into a private folder there, by that machine's engine or from a
stream that another machine's engine sends, and then moved into place.

The same modules move them as on this machine (`backup_jobs.restore`). They need only Python: their source code is
passed to the Python of the ssh machine.
"""

import base64
import json
import os
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from backup_engine import bounded_json, protected_places
from backup_engine.chunks.commands import narrowed
from backup_engine.command import LARGEST_RESULT, Command, Machine
from backup_engine.extraction_check import ABOUT_ATTRIBUTES, LINK_IN_THE_WAY, NOT_EXTRACTED
from backup_engine.far.streaming import unpacked_there
from backup_engine.listing import ListedFile
from backup_engine.protected_places import ProtectedPlaces
from backup_jobs.endings import Ended, Failed
from backup_jobs.host import Interrupted, Step
from backup_jobs.paths import readable, shown
from backup_jobs.restore import endings, existing_files, private_tree, tree_mover, unrestorable, walking
from backup_jobs.restore.existing_files import UnknownFiles
from backup_jobs.restore.extract import Restore
from backup_jobs.restore.place import RestorePlace, RestoreWork
from backup_jobs.restore.progress import ExtractProgress
from backup_jobs.restore.survey import MOST_SHOWN, Survey
from backup_jobs.work import ended_without_success, warnings_of
from holdfast.errors import HoldfastError, Unprocessable
from holdfast.execution.engines import FAR_FOLDERS
from holdfast.machines import store as machines
from holdfast.operations.context import Context
from holdfast.repositories import store as repositories
from holdfast.repositories.location import Opener, runs_on
from holdfast.repositories.work import RepositoryWork
from holdfast.restore import errors
from holdfast.restore.schemas import RestoreParams

UNREADABLE = "The machine's response cannot be read. Check the destination before starting the restore again."
MAKE, EXTRACT, PLACE, REMOVE = "make", "extract", "place", "remove"
SHIPPED_MODULES = (protected_places, existing_files, walking, tree_mover, unrestorable, private_tree)
"""Each module imports only the standard library and the modules before it."""
LOAD = """
import sys
import types

for name, text in MODULES:
    for package in [name.rsplit(".", count)[0] for count in range(1, name.count(".") + 1)]:
        sys.modules.setdefault(package, types.ModuleType(package))
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
"""
MAIN = """
import base64
import json
import os
import sys

from backup_engine.protected_places import ProtectedPlaces, ProtectedTargets
from backup_jobs.restore.private_tree import DestinationUnusable, PrivateTree
from backup_jobs.restore.unrestorable import OUTSIDE_HARD_LINK, remove_unrestorable
from backup_jobs.restore.walking import walk


def shown(named):
    return [
        {"path": path.decode("utf-8", "replace"), "path_b64": base64.b64encode(path).decode(), "reason": reason}
        for path, reason in named
    ]


def there(tree):
    # The names of all files: by them it is known which are missing.
    with tree.tree() as descriptor:
        return [
            base64.b64encode(os.path.join(visited.path, os.fsencode(name))).decode()
            for visited in walk(descriptor)
            for name in os.listdir(visited.folders[0])
        ]


def moved(tree, overwrite, roots, expected):
    with tree.tree() as descriptor:
        outside_links = [(path, OUTSIDE_HARD_LINK) for path, _ in remove_unrestorable(descriptor).outside_links[:1000]]
    files, size = tree.count()
    names = there(tree) if files < expected and files <= 10000 else None
    if names is not None and sum(map(len, names)) > 4 << 20:
        names = None
    conflicts = tree.conflicts(roots) if overwrite == "fail" else []
    if conflicts:
        return {"conflict_count": len(conflicts), "conflicts": shown(conflicts[:1000])}
    placed = tree.place(roots, overwrite, lambda: False)
    return {
        "files_restored": files - placed.skipped.files - placed.failed.files - placed.passed_over.files,
        "bytes_restored": size - placed.skipped.size - placed.failed.size - placed.passed_over.size,
        "files_passed_over": placed.passed_over.files,
        "bytes_passed_over": placed.passed_over.size,
        "passed_over": shown(placed.passed_over.named),
        "files_skipped": placed.skipped.files,
        "bytes_skipped": placed.skipped.size,
        "files_failed": placed.failed.files,
        "bytes_failed": placed.failed.size,
        "skipped": shown(placed.skipped.named),
        "failed": shown(placed.failed.named),
        "foreign": shown(outside_links),
        "names": names,
    }


def guard_of(options):
    places = [base64.b64decode(place) for place in options["places"]]
    places += [os.fsencode(os.path.expanduser(place)) for place in options["homes"]]
    known = [(base64.b64decode(place), device, inode) for place, device, inode in options["known"]]
    return ProtectedPlaces(places, known)


def main(verb, key, overwrite, options, destination, *roots):
    options = json.loads(options)
    guard = guard_of(options)
    destination = base64.b64decode(destination)
    tree = PrivateTree(destination, key, guard)
    try:
        if verb == "make":
            targets = ProtectedTargets(guard, destination)
            chosen = [base64.b64decode(path) for path in options["chosen"]]
            own = [path for path in chosen if targets.is_own(path, is_directory=True)]
            if own:
                return {"forbidden": [path.decode("utf-8", "replace") for path in own[:3]]}
            tree.make()
            return {}
        if verb == "place":
            answer = moved(tree, overwrite, tuple(map(base64.b64decode, roots)), options["expected"])
            tree.remove()
            return answer
        tree.remove()
        return {}
    except DestinationUnusable as error:
        return {"unusable": str(error), "key": error.key}


print(json.dumps(main(*sys.argv[1:])))
"""


def placing_script() -> str:
    """Return the program for the machine's Python: these modules under their own names, followed by the main part."""
    texts = [(module.__name__, Path(str(module.__file__)).read_text()) for module in SHIPPED_MODULES]
    return f"MODULES = {texts!r}\n{LOAD}\n{MAIN}"


class MachinePlace(RestorePlace):
    """An ssh machine as a place for restores. Protected places are determined there."""

    def __init__(self, opener: Opener, opened: RepositoryWork, params: RestoreParams) -> None:
        assert params.destination_machine_id is not None
        self.context: Context = opened.context
        self.machine_id = params.destination_machine_id
        self.machine: Machine = opener.machines.machine(self.machine_id)
        self.has_engine = runs_on(opened.repository) == self.machine_id
        self._own_places = opener.own_places
        with self.context.database.reading() as session:
            connection = machines.get(session, self.machine_id)
            host = connection.host.lower() if connection else ""
            self._repositories_there = repositories.paths_on_host(session, host)

    @property
    def key(self) -> str:
        return self.context.operation.uuid

    @property
    def guard(self) -> ProtectedPlaces:
        return ProtectedPlaces()

    def protected(self) -> dict[str, Any]:
        """Return places that the machine must not write to: its repositories, service folders, this service."""
        known = self._own_places.identities()
        return {
            "places": _exact(map(os.fsencode, self._repositories_there)),
            "homes": FAR_FOLDERS,
            "known": [[*_exact([os.fsencode(one["path"])]), one["device"], one["inode"]] for one in known],
        }


class MachineRestore(Restore):
    """A restore whose second half happens on the machine."""

    def __init__(self, place: MachinePlace, work: RestoreWork) -> None:
        super().__init__(work)
        self._there = place
        self._tree = self.private_in(self.destination)

    def require_destination(self) -> None:
        """Do nothing: the machine checks the destination when the private folder is made."""

    def existing(self) -> UnknownFiles:
        return UnknownFiles()

    def remove_private(self) -> None:
        """Remove the private folder, if the machine allows it."""
        if not self.host.has_begun(MAKE):
            return
        try:
            self._placing(REMOVE)
        except (HoldfastError, Interrupted):
            self.host.log(f"The folder {readable(self._tree.path)} remains on the machine.")

    def interrupted(self, interrupted: Interrupted) -> Ended:
        if interrupted.step == PLACE:
            sentence = f"{interrupted.sentence()} Some files may already be in place; start the restore again."
            return Failed("operations.interrupted", sentence)
        return super().interrupted(interrupted)

    def extracted(self, surveyed: Survey, listed: Callable[[], Iterable[ListedFile]]) -> Ended:
        """Extract the files and move them into place. `listed` reads the listing again, only needed if files are
        missing.
        """
        if self._there.machine.python is None:
            raise errors.python_missing()
        made = self._placing(MAKE)
        if "forbidden" in made:
            return endings.refused(*endings.target_forbidden(", ".join(made["forbidden"])))
        if "unusable" in made:
            return endings.refused(made["key"], made["unusable"])
        place = f"{self._there.machine.name}:{readable(self.destination)}"
        self.host.log(endings.first_line(surveyed, self.block.archive, place))
        progress = ExtractProgress(self.host.report)
        extracted = self.host.step(EXTRACT, self._extraction(surveyed), on_event=progress.on_event)
        if bad := ended_without_success(self.host, extracted):
            self.remove_private()
            return endings.with_nothing(bad)
        account = self._placing(PLACE, surveyed.files - len(surveyed.links_in_the_way))
        return self._ended(extracted, surveyed, account, listed)

    def _placing(self, verb: str, expected: int = 0) -> dict[str, Any]:
        command = self._placing_command(verb, expected)
        step = self.host.step(verb, command, despite_cancel=verb == REMOVE, quiet=True)
        if not step.succeeded:
            raise Unprocessable(
                step.outcome.error_key or "engine.failed",
                step.outcome.message or "The machine failed without a message.",
            )
        try:
            answer = bounded_json.document(step.stdout.read_bytes())
        except (ValueError, OSError) as error:
            raise Unprocessable("engine.failed", UNREADABLE) from error
        if not isinstance(answer, dict):
            raise Unprocessable("engine.failed", UNREADABLE)
        return answer

    def _placing_command(self, verb: str, expected: int) -> Command:
        roots = self.placement.roots if self.placement.contents_only else ()
        chosen = [] if self.placement.contents_only else _exact(self.placement.roots)
        options = json.dumps({**self._there.protected(), "chosen": chosen, "expected": expected})
        arguments = (verb, self._there.key, self.block.overwrite, options, *_exact((self.destination, *roots)))
        argv = (str(self._there.machine.python), "-I", "-S", "-c", placing_script(), *arguments)
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        return Command(argv, environment, machine=self._there.machine, most_output=LARGEST_RESULT)

    def _extraction(self, surveyed: Survey) -> Command:
        engine, location = self.work.engine, self.work.location
        if self._there.has_engine:
            return narrowed(engine.extract(location, self.extract_request(self._tree.path, surveyed)), self.wanted())
        exported = narrowed(engine.export_tar(location, self.export_request(surveyed)), self.wanted())
        return unpacked_there(exported, self._there.machine, self._tree.path)

    def _ended(
        self, step: Step, surveyed: Survey, account: dict[str, Any], listed: Callable[[], Iterable[ListedFile]]
    ) -> Ended:
        result = {**endings.NOTHING, **account, "special_files": surveyed.special}
        warnings = warnings_of(step.accumulator)
        if result["conflict_count"]:
            return endings.conflicting(result["conflict_count"], result["conflicts"])
        _add_lost(result, surveyed, warnings, listed)
        self.host.log(f"Restored {result['files_restored']} files ({result['bytes_restored']} bytes).")
        if result["files_skipped"]:
            self.host.log(f"Skipped because something already exists there: {result['files_skipped']} files.")
        left_out = [*endings.about_special(surveyed.special), *endings.passed_over(result)]
        is_warned = step.is_warned or bool(left_out)
        return endings.counted(result, None, (*warnings, *left_out), is_warned=is_warned)


def _add_lost(
    result: dict[str, Any],
    surveyed: Survey,
    warnings: Iterable[Mapping[str, Any]],
    listed: Callable[[], Iterable[ListedFile]],
) -> None:
    """Count listed files that never reached the private folder as failed, and name them unless there are many."""
    lost = [
        *result.pop("foreign"),
        *(
            {"path": warning["path"], "reason": warning["message"]}
            for warning in warnings
            if warning["path"] and not ABOUT_ATTRIBUTES.search(warning["message"])
        ),
    ]
    links = [{**shown(path), "reason": LINK_IN_THE_WAY} for path in surveyed.links_in_the_way]
    arrived = sum(result[f"files_{how}"] for how in ("restored", "skipped", "failed", "passed_over"))
    if (names := result.pop("names")) is not None:
        lost += _unnamed(names, {item["path"] for item in (*lost, *links)}, listed())
    missing = max(len(lost), surveyed.files - len(links) - arrived)
    result["files_failed"] += missing + len(links)
    result["failed"] = [*result["failed"], *lost, *links][:MOST_SHOWN]


def _unnamed(names: Iterable[str], known: set[str], listed: Iterable[ListedFile]) -> list[dict[str, str]]:
    """Return the listed files that are missing from the extracted tree, without those already known to be missing."""
    present = set(map(base64.b64decode, names))
    missing = (
        shown(item.path) for item in listed if not (item.is_directory or item.is_special or item.path in present)
    )
    return [{**each, "reason": NOT_EXTRACTED} for each in islice(missing, MOST_SHOWN) if each["path"] not in known]


def _exact(paths: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(base64.b64encode(path).decode() for path in paths)
