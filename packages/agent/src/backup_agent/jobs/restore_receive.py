"""`restore.receive`: restore files of an archive that this machine cannot open. The service sends them as a stream.

The stream is unpacked into a private folder. Files are moved into place only when the service has reported that the
engine succeeded and the stream was complete. If the stream is cut, it is requested again from the beginning.
"""

import base64
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from backup_agent.backoff import Backoff
from backup_agent.client import NoAnswer, NotAllowed, OpenStream, Refusal
from backup_agent.job_work import ReceiveWork
from backup_agent.restore_stream import LinkCut, RestoreStream
from backup_engine.extraction_check import LINK_IN_THE_WAY, PathWarnings
from backup_engine.listing import ListedFile
from backup_jobs.endings import Completed, Ended, Failed, Stopped
from backup_jobs.host import Cancelled, Interrupted
from backup_jobs.paths import readable, to_json
from backup_jobs.restore import endings
from backup_jobs.restore.existing_files import ExistingFiles
from backup_jobs.restore.extract import PLACE, Restore
from backup_jobs.restore.private_tree import PrivateTree, opened
from backup_jobs.restore.survey import readable_paths
from backup_jobs.restore.unrestorable import OUTSIDE_HARD_LINK, remove_unrestorable
from backup_jobs.restore.verify import Plan, Verifier
from backup_protocol import ReceiveEnd, ReceiveSurvey, read, write

TRIES = 12
"""Together with the pauses, about five minutes."""
LONGEST_PAUSE_SECONDS = 60.0
LOOK_SECONDS = 0.5
MOST_NAMED = 1000
ABOUT_ATTRIBUTES = re.compile(r"^attrs: ")


class TryAgainLater(Exception):
    """The stream was cut or not available; it can be requested again."""


def run(work: ReceiveWork) -> Ended:
    return _Receiving(work).run()


def interrupted(work: ReceiveWork, interrupted: Interrupted) -> Ended:
    """No engine runs here, so none can have been interrupted."""
    del work
    return Failed("operations.interrupted", interrupted.sentence(), details=endings.NOTHING)


class _Receiving(Restore):
    """A restore whose files come from a stream instead of an engine."""

    def __init__(self, work: ReceiveWork) -> None:
        super().__init__(work)
        self._work = work

    def _restored(self) -> Ended:
        try:
            return self._received()
        except Cancelled:
            self.remove_private()
            return Stopped(details=endings.NOTHING)

    def _received(self) -> Ended:
        self.require_destination()
        if chosen := self._chosen_in_own_places():
            return endings.refused(*endings.target_forbidden(readable_paths(chosen)))
        private = self.private_in(self.destination)
        self.host.once(PLACE, lambda: {"base": to_json(self.destination)})
        self.host.log(f"Receiving {self.block.archive} from the service.")
        received = self.host.once("received", lambda: _received(self._work, self, private))
        self.host.log(*received["notes"])
        if received["failure"] is not None:
            private.remove()
            key, sentence = received["failure"]
            return Failed(key, sentence, details=endings.NOTHING)
        if self.block.dry_run:
            return self._dry_run(received)
        plan = self.planned(private, lambda: self._verified_stream(private, received))
        return self.moved(private, plan, None, (), received["warnings"] if received["warned"] else ())

    def _chosen_in_own_places(self) -> list[bytes]:
        """The wanted paths that would end up in protected places."""
        if self.placement.contents_only:
            return []
        targets = self.protected()
        return [root for root in self.placement.roots if targets.is_own(root, is_directory=True)]

    def _dry_run(self, received: Mapping[str, Any]) -> Completed:
        survey = received["survey"]
        amount = f"{survey['files']} files ({survey['size']} bytes)"
        self.host.log(f"Dry run: {amount} would be restored to {readable(self.destination)}.")
        return Completed(0, details={"dry_run": True, "files": survey["files"], "bytes": survey["size"]})

    def _verified_stream(self, private: PrivateTree, received: Mapping[str, Any]) -> Plan:
        """Check the files in the private folder: against the listing, or only by number if the listing was too long."""
        survey = read(ReceiveSurvey, received["survey"])
        links = [_exact(link) for link in survey.links]
        lost = [(_exact(item), item["reason"]) for item in received["lost"]]
        if survey.listed:
            path_warnings = PathWarnings()
            for path, reason in lost:
                path_warnings.add(path, reason)
            with private.tree() as tree:
                there = ExistingFiles(self.destination)
                verifier = Verifier(tree, self.placement, there, links, path_warnings, self.protected())
                return verifier.verify(map(_listed, survey.listed))
        with private.tree() as tree:
            lost += [(path, OUTSIDE_HARD_LINK) for path, _ in remove_unrestorable(tree).outside_links]
        roots = self.placement.roots if self.placement.contents_only else ()
        conflicts = private.conflicts(roots) if self.block.overwrite == "fail" else []
        files, size = private.count()
        failed = [(path, reason, 0) for path, reason in (*lost, *((link, LINK_IN_THE_WAY) for link in links))]
        return Plan(
            files,
            size,
            failed=failed[:MOST_NAMED],
            conflicts=conflicts[:MOST_NAMED],
            conflict_count=len(conflicts),
            unnamed=max(len(failed), survey.files - files) - len(failed[:MOST_NAMED]),
            unnamed_special=survey.special,
        )


# --- receiving --------------------------------------------------------------------------------------------------------


def _received(work: ReceiveWork, restore: Restore, private: PrivateTree) -> dict[str, Any]:
    """Unpack the complete stream into the private folder; return its account, or why there is none.

    Events on the way are logged only afterwards: after a restart of the agent, the log must come out the same.
    """
    backoff = Backoff(most=LONGEST_PAUSE_SECONDS)
    notes: list[str] = []
    for tries in range(1, TRIES + 1):
        try:
            return {**_received_once(work, restore, private), "notes": notes}
        except TryAgainLater as error:
            notes.append(f"Attempt {tries} failed: {error}")
        except Refusal as refusal:
            return {**_failure(refusal.key, str(refusal)), "notes": notes}
        private.remove()
        if tries < TRIES:
            work.host.pause(backoff.failed())
    sentence = "The files could not be received from the service. Nothing was restored; start the restore again."
    return {**_failure("restore.not_received", sentence), "notes": notes}


def _received_once(work: ReceiveWork, restore: Restore, private: PrivateTree) -> dict[str, Any]:
    from backup_engine.far.unpack import BrokenOff, Unpacker  # an idle agent does not need them in memory

    complaints = _Complaints()
    try:
        with work.receive() as stream, _cut_when_asked(work, stream):
            received = RestoreStream(stream)
            survey = received.survey()
            _require_targets(restore, survey)
            if survey is not None and not work.block.dry_run:
                private.make()
                files = endings.file_count(survey.files)
                work.host.log(f"Receiving {files} ({survey.size} bytes) of {work.block.archive}.")
                with opened(private.path) as tree:
                    Unpacker(tree, complaints.add).unpack(_Reporting(work, received, survey))
            elif survey is not None and received.read(1):
                raise LinkCut("a dry run has no files")
    except (NoAnswer, NotAllowed, LinkCut) as error:
        work.host.require_going_on()
        raise TryAgainLater(str(error)) from error
    except BrokenOff as error:
        work.host.require_going_on()
        if received.end is None or received.end.is_good:
            raise TryAgainLater("The stream of files was incomplete.") from error
    return _account_of_stream(received.end, survey, complaints)


def _require_targets(restore: Restore, survey: ReceiveSurvey | None) -> None:
    """Raise Refused before anything is written, as far as the targets are already known."""
    items = map(_listed, survey.listed) if survey is not None else ()
    found = (restore.placement.target(item.path, is_directory=item.is_directory) for item in items)
    restore.work.place.require_targets(restore.destination, (target for target in found if target is not None))


def _account_of_stream(
    end: ReceiveEnd | None, survey: ReceiveSurvey | None, complaints: "_Complaints"
) -> dict[str, Any]:
    if end is None:
        raise TryAgainLater("The stream of files ended without a status frame.")
    if end.error_key == "engine.locked":
        raise TryAgainLater(end.message or "Another program is using the repository.")
    if not end.is_good or survey is None:
        return _failure(end.error_key or "engine.failed", end.message or "The engine failed.")
    return {
        "failure": None,
        "survey": write(survey),
        "lost": complaints.lost,
        "warnings": [*complaints.attributes, *end.warnings][:MOST_NAMED],
        "warned": bool(complaints.attributes) or end.status == "completed_with_warnings",
    }


def _failure(key: str, message: str) -> dict[str, Any]:
    return {"failure": [key, message]}


@contextmanager
def _cut_when_asked(work: ReceiveWork, stream: OpenStream) -> Iterator[None]:
    """Cut a stalled stream, so that it delays neither a cancellation nor the agent's shutdown."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(LOOK_SECONDS):
            if work.host.is_cancelled() or work.host.is_stopping():
                stream.cut()
                return

    thread = threading.Thread(target=watch, name="stream-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class _Complaints:
    """Files that could not be written, and attributes that could not be set."""

    def __init__(self) -> None:
        self.lost: list[dict[str, Any]] = []
        self.attributes: list[dict[str, Any]] = []

    def add(self, path: bytes, reason: str) -> None:
        shown = path.decode("utf-8", "replace")
        if ABOUT_ATTRIBUTES.match(reason):
            if len(self.attributes) < MOST_NAMED:
                self.attributes.append({"path": shown, "message": f"{shown}: {reason}"})
        elif len(self.lost) < MOST_NAMED:
            exact = {} if shown.encode() == path else {"path_b64": base64.b64encode(path).decode()}
            self.lost.append({"path": shown, **exact, "reason": reason})


class _Reporting:
    """Wraps the stream and reports progress as it is read."""

    def __init__(self, work: ReceiveWork, received: RestoreStream, survey: ReceiveSurvey) -> None:
        self._work = work
        self._received = received
        self._size = survey.size

    def read(self, size: int, /) -> bytes:
        block = self._received.read(size)
        if self._size:
            percent = round(min(99.0, self._received.size * 100 / self._size), 1)
            self._work.host.report(progress_percent=percent)
        return block


def _listed(item: dict[str, Any]) -> ListedFile:
    return ListedFile(_exact(item), str(item["type"]), int(item["size"]), bool(item.get("hard_link")))


def _exact(item: dict[str, Any]) -> bytes:
    return base64.b64decode(item["path_b64"]) if "path_b64" in item else str(item["path"]).encode("utf-8", "replace")
