"""`restore.receive`: files of an archive that this machine cannot open, received from the service and put into a folder here.

The stream is unpacked into a private folder. Only when the service has said that the engine ended well, and the stream was
whole, is anything moved into place. A stream that is cut is asked for again, from its beginning.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from backup_agent.backoff import Backoff
from backup_agent.client import NoAnswer, NotAllowed, OpenStream, Refusal
from backup_agent.job_work import Completed, Ended, Failed, Stopped, Work, readable, within_message
from backup_agent.jobs.restore_extract import (
    NOTHING,
    block_of,
    counted_in,
    destination_of,
    key_of,
    moved_into_place,
    paths_of,
    require_known_words,
)
from backup_agent.private_tree import DestinationUnusable, PrivateTree, opened
from backup_agent.received import LinkCut, Received
from backup_agent.steps import Cancelled, Interrupted
from backup_engine.far.unpack import BrokenOff, Unpacker
from backup_protocol import Progress, ReceiveEnd, ReceiveSurvey, RestoreBlock, write

TRIES = 12
"""With the pauses between them, about five minutes."""
LONGEST_PAUSE_SECONDS = 60.0
LOOK_SECONDS = 0.5
MOST_NAMED = 1000
ABOUT_ATTRIBUTES = re.compile(r"^attrs: ")
LINK_IN_THE_WAY = "the archive holds files below this symbolic link"


class TryAgainLater(Exception):
    """The stream was cut, or could not be had: it can be asked for once more."""


def run(work: Work) -> Ended:
    block = block_of(work)
    require_known_words(block)
    private, roots = PrivateTree(destination_of(block), key_of(work)), paths_of(block)
    try:
        work.steps.say(f"Receiving {readable(block.archive)} from the service.")
        received = work.steps.once("received", lambda: _received(work, block, private))
        work.steps.say(*received["notes"])
        if received["failure"] is not None:
            private.remove()
            key, sentence = received["failure"]
            return Failed(key, sentence, details=dict(NOTHING))
        if block.dry_run:
            return _dry_run(work, block, received)
        return _placed(work, block, private, roots, received)
    except DestinationUnusable as error:
        return Failed("restore.destination_unusable", str(error), details=dict(NOTHING))
    except Cancelled:
        private.remove()
        return Stopped(None, dict(NOTHING))


def interrupted(work: Work, interrupted: Interrupted) -> Ended:
    """No engine runs here, so none is interrupted."""
    del work
    return Failed("operations.interrupted", interrupted.sentence(), details=dict(NOTHING))


# --- receiving --------------------------------------------------------------------------------------------------------


def _received(work: Work, block: RestoreBlock, private: PrivateTree) -> dict[str, Any]:
    """All of it in the private folder, and what is to be known of it; or why there is nothing.

    What happened on the way is told afterwards: the log must come out the same if the agent is started again.
    """
    backoff = Backoff(most=LONGEST_PAUSE_SECONDS)
    notes: list[str] = []
    for tries in range(1, TRIES + 1):
        try:
            return {**_received_once(work, block, private), "notes": notes}
        except TryAgainLater as error:
            notes.append(f"Try {tries} came to nothing: {error}")
        except Refusal as refusal:
            return {**_failure(refusal.key, str(refusal)), "notes": notes}
        private.remove()
        if tries < TRIES:
            work.steps.pause(backoff.failed())
    sentence = "The files could not be received from the service. Nothing was restored; start the restore again."
    return {**_failure("restore.not_received", sentence), "notes": notes}


def _received_once(work: Work, block: RestoreBlock, private: PrivateTree) -> dict[str, Any]:
    told = _Told()
    try:
        with work.receive() as stream, _cut_when_asked(work, stream):
            received = Received(stream)
            survey = received.survey()
            if survey is not None and not block.dry_run:
                private.make()
                work.steps.say(f"Receiving {survey.files} files ({survey.size} bytes) of {block.archive}.")
                with opened(private.path) as tree:
                    Unpacker(tree, told.hear).unpack(_Reporting(work, received, survey))
            elif survey is not None and received.read(1):
                raise LinkCut("a dry run has no files")
    except (NoAnswer, NotAllowed, LinkCut) as error:
        work.steps.require_going_on()
        raise TryAgainLater(str(error)) from error
    except BrokenOff as error:
        work.steps.require_going_on()
        if received.end is None or received.end.is_good:
            raise TryAgainLater("The stream of files was not whole.") from error
    return _account_of_stream(received.end, survey, told)


def _account_of_stream(end: ReceiveEnd | None, survey: ReceiveSurvey | None, told: "_Told") -> dict[str, Any]:
    if end is None:
        raise TryAgainLater("The stream of files ended without a word.")
    if end.error_key == "engine.locked":
        raise TryAgainLater(end.message or "Another program uses the repository.")
    if not end.is_good or survey is None:
        return _failure(end.error_key or "engine.failed", end.message or "The engine failed.")
    return {
        "failure": None,
        "survey": write(survey),
        "lost": told.lost,
        "warnings": [*told.attributes, *end.warnings][:MOST_NAMED],
        "warned": bool(told.attributes) or end.status == "completed_with_warnings",
    }


def _failure(key: str, message: str) -> dict[str, Any]:
    return {"failure": [key, message]}


@contextmanager
def _cut_when_asked(work: Work, stream: OpenStream) -> Iterator[None]:
    """A stream that nothing comes out of must not hold up a cancel, nor the end of the agent."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(LOOK_SECONDS):
            if work.steps.is_cancelled() or work.steps.is_stopping():
                stream.cut()
                return

    thread = threading.Thread(target=watch, name="stream-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class _Told:
    """What could not be written, and what could not be set."""

    def __init__(self) -> None:
        self.lost: list[dict[str, Any]] = []
        self.attributes: list[dict[str, Any]] = []

    def hear(self, path: bytes, reason: str) -> None:
        shown = path.decode("utf-8", "replace")
        if ABOUT_ATTRIBUTES.match(reason):
            if len(self.attributes) < MOST_NAMED:
                self.attributes.append({"path": shown, "message": f"{shown}: {reason}"})
        elif len(self.lost) < MOST_NAMED:
            self.lost.append({"path": shown, "reason": reason})


class _Reporting:
    """The stream, telling on the way how far it has come."""

    def __init__(self, work: Work, received: Received, survey: ReceiveSurvey) -> None:
        self._work = work
        self._received = received
        self._size = survey.size

    def read(self, size: int, /) -> bytes:
        block = self._received.read(size)
        if self._size:
            percent = round(min(99.0, self._received.size * 100 / self._size), 1)
            self._work.steps.report(Progress(progress_percent=percent))
        return block


# --- the end ----------------------------------------------------------------------------------------------------------


def _dry_run(work: Work, block: RestoreBlock, received: Any) -> Ended:
    survey = received["survey"]
    told = f"{survey['files']} files ({survey['size']} bytes)"
    work.steps.say(f"Dry run: {told} would be restored to {readable(block.destination)}.")
    return Completed(0, details={"dry_run": True, "files": survey["files"], "bytes": survey["size"]})


def _placed(work: Work, block: RestoreBlock, private: PrivateTree, roots: tuple[bytes, ...], received: Any) -> Ended:
    counted = counted_in(work, private)
    account = moved_into_place(work, block, private, roots)
    if isinstance(account, Failed):
        return account
    cancelled = account.pop("cancelled")
    _add_lost(account, received, counted["files"])
    work.steps.say(f"Restored {account['files_restored']} files ({account['bytes_restored']} bytes).")
    if cancelled:
        return Stopped(None, account)
    warnings = tuple(within_message([*received["warnings"], *_about_special(account)]))
    if account["files_failed"]:
        first = f"; the first: {account['failed'][0]['path']}" if account["failed"] else ""
        sentence = f"{account['files_failed']} files were not restored{first}."
        return Failed("restore.incomplete", sentence, None, account, warnings)
    warned = received["warned"] or bool(account["special_files"])
    return Completed(0, warned, warnings=warnings, details=account)


def _add_lost(account: dict[str, Any], received: Any, counted: int) -> None:
    """Count as failed what never came into the private folder: by the listing, and named where it is known."""
    survey = received["survey"]
    links = [{**link, "reason": LINK_IN_THE_WAY} for link in survey["links"]]
    missing = max(len(received["lost"]), survey["files"] - len(links) - counted)
    account["special_files"] = survey["special"]
    account["files_failed"] += missing + len(links)
    account["failed"] = within_message([*account["failed"], *received["lost"], *links])


def _about_special(account: dict[str, Any]) -> list[dict[str, Any]]:
    count = account["special_files"]
    return [{"path": None, "message": f"{count} FIFOs or devices are not restored."}] if count else []
