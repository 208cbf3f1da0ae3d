"""Store everything about one job in a folder, from before the claim until the service has received all of it.

================  ===================================================================================================
``job.json``      the job as received, without secret values; written before the claim
``claimed``       the service has confirmed the claim
``cancel.json``   the job was cancelled, or the service has ended it
``start.json``    when work began
``log/``          numbered log lines
``progress.json`` latest progress, numbered
``parts/``        slices of a large result
``result.json``   how the job ended: the message to send
``sent.json``     what the service has acknowledged
``steps/``        spools of the engine runs, and results passed between them
================  ===================================================================================================
"""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from backup_agent import private_files
from backup_agent.job_log import JobLog
from backup_agent.machine import now
from backup_engine.frozen import frozen
from backup_protocol import Canceled, Complete, Fail, Job, Progress, ResultPart, Start, read, write

log = logging.getLogger(__name__)

Ending = Complete | Fail | Canceled
ENDINGS: Mapping[str, type[Complete] | type[Fail] | type[Canceled]] = {
    "complete": Complete,
    "fail": Fail,
    "canceled": Canceled,
}
ITEMS_OF_PART = 500
BYTES_OF_PART = 128 * 1024


@frozen
class Sent:
    """What the service has acknowledged: the start, the next log line, the number of the progress, the number of
    parts.
    """

    start: bool = False
    log: int = 1
    progress: int = 0
    parts: int = 0


class JobFolder:
    """A job on disk, shared by the thread that works on it and the thread that uploads its reports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.job_id = int(folder.name)
        self.log = JobLog(folder / "log")
        self.secrets: dict[str, dict[str, str]] | None = None
        """Secret values of the payload, in memory only. None if the agent must request them from the service again."""
        self.wake: Callable[[], None] = _nothing
        """Called when there is something to upload."""
        self.on_claimed: Callable[[JobFolder], None] | None = None
        """Called when the service has confirmed the claim: from then on the job has something to report."""
        self.is_removed = False
        """The service has everything; threads that still refer to the job must not touch the folder."""
        self.cancelled = threading.Event()
        self._changing = threading.Lock()
        self._sent = read(Sent, private_files.read_json(folder / "sent.json") or {})
        self.log.acknowledge(self._sent.log)
        self._progress_number = self._sent.progress
        self._progress: Progress | None = None
        self._cancel_is_kept = (folder / "cancel.json").exists()
        if self._cancel_is_kept:
            self.cancelled.set()

    @staticmethod
    def make(jobs: Path, job: Job) -> "JobFolder":
        """Store a job that is about to be claimed. Its secrets stay in memory."""
        folder = jobs / str(job.id)
        private_files.make_folder(folder)
        payload = {name: value for name, value in job.payload.items() if name != "secrets"}
        private_files.write_json(folder / "job.json", write(replace(job, payload=payload)))
        made = JobFolder(folder)
        made.secrets = secrets_of(job.payload)
        return made

    @staticmethod
    def all_below(jobs: Path) -> list["JobFolder"]:
        """Return the unfinished jobs, oldest first. Folders whose creation was interrupted are removed."""
        found = []
        for folder in jobs.iterdir() if jobs.exists() else ():
            if folder.name.isdigit() and private_files.read_json(folder / "job.json") is not None:
                try:
                    found.append(JobFolder(folder))
                except (ValueError, TypeError, OSError):  # one unreadable folder must not stop the agent
                    log.exception("The folder of job %s cannot be read; leaving it as it is.", folder.name)
            else:
                _remove_with_spools(folder)
        return sorted(found, key=lambda each: each.job_id)

    @property
    def job(self) -> Job:
        return read(Job, private_files.read_json(self.folder / "job.json"))

    # --- the stages of a job --------------------------------------------------------------------------------------

    @property
    def is_claimed(self) -> bool:
        return (self.folder / "claimed").exists()

    def note_claimed(self) -> None:
        private_files.write_json(self.folder / "claimed", {"at": now()})
        if self.on_claimed is not None:
            self.on_claimed(self)

    def note_start(self) -> None:
        """Record when work began, unless already recorded."""
        if not (self.folder / "start.json").exists():
            private_files.write_json(self.folder / "start.json", write(Start(now())))
            self.wake()

    @property
    def start(self) -> Start | None:
        kept = private_files.read_json(self.folder / "start.json")
        return read(Start, kept) if kept is not None else None

    def cancel(self, reason: str) -> None:
        """Stop the job, and remember the request. Any thread may call this, even after the job is over.

        A cancellation that cannot be stored still takes effect: the service repeats it with each heartbeat.
        """
        with self._changing:
            self.cancelled.set()
            if self.is_removed or self._cancel_is_kept:
                return
            try:
                private_files.write_json(self.folder / "cancel.json", {"reason": reason, "at": now()})
                self._cancel_is_kept = True
            except OSError as error:
                log.warning("Job %s: its cancellation cannot be stored: %s", self.job_id, error)

    @property
    def is_ended(self) -> bool:
        return (self.folder / "result.json").exists()

    def end(self, ending: Ending, items: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Store how the job ended, and the items of its result that are sent in parts. The first ending counts.

        An empty list of items becomes one empty part, which shows that there are none.
        """
        if self.is_ended:
            return
        parts = 0
        for parts, slice_of_items in enumerate(_slices(items) if items is not None else (), 1):
            private_files.make_folder(self.folder / "parts")
            private_files.write_json(self.folder / "parts" / f"{parts - 1}.json", slice_of_items)
        if parts and isinstance(ending, Complete):
            ending = replace(ending, result=replace(ending.result, parts=parts))
        word = next(word for word, kind in ENDINGS.items() if isinstance(ending, kind))
        private_files.write_json(
            self.folder / "result.json", {"report": word, "message": write(ending), "parts": parts}
        )
        self.wake()

    def ending(self) -> tuple[Ending, int] | None:
        """The message that ends the job, and the number of parts to send before it."""
        kept = private_files.read_json(self.folder / "result.json")
        if kept is None:
            return None
        return read(ENDINGS[kept["report"]], kept["message"]), int(kept["parts"])

    def part(self, number: int) -> ResultPart:
        items = private_files.read_json(self.folder / "parts" / f"{number}.json")
        return ResultPart(number, tuple(items))

    # --- progress ---------------------------------------------------------------------------------------------------

    def note_progress(self, progress: Progress) -> None:
        """Store the latest progress on disk before it is sent; a lost update does no harm."""
        number = self._progress_number + 1
        private_files.write_json(self.folder / "progress.json", {"sequence": number, **write(progress)}, durable=False)
        self._progress, self._progress_number = progress, number

    def unsent_progress(self) -> tuple[int, Progress] | None:
        progress, number = self._progress, self._progress_number
        return (number, progress) if progress is not None and number > self._sent.progress else None

    # --- acknowledgements -------------------------------------------------------------------------------------------

    @property
    def sent(self) -> Sent:
        return self._sent

    def note_sent(self, **what: Any) -> None:
        """Record what was acknowledged. If a power cut loses this record, reports are merely sent twice."""
        self._sent = replace(self._sent, **what)
        private_files.write_json(self.folder / "sent.json", write(self._sent), durable=False)
        if "log" in what:
            self.log.acknowledge(self._sent.log)

    def remove(self) -> None:
        """Delete the job: the service has everything, or does not want it."""
        with self._changing:
            self.is_removed = True
            self.log.close()
            (self.folder / "job.json").unlink(missing_ok=True)
            _remove_with_spools(self.folder)


def secrets_of(payload: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Secret values of a payload. Empty for a malformed payload, which is refused later when it is parsed."""
    given = payload.get("secrets")
    if not isinstance(given, dict):
        return {}
    return {
        str(ref): {"value": str(secret["value"])}
        for ref, secret in given.items()
        if isinstance(secret, dict) and "value" in secret
    }


def _slices(items: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the items in order, in parts that each fit into a message; one empty part if there are no items."""
    part: list[Mapping[str, Any]] = []
    size = 0
    for item in items:
        length = len(json.dumps(item))
        if part and (len(part) == ITEMS_OF_PART or size + length > BYTES_OF_PART):
            yield part
            part, size = [], 0
        part.append(item)
        size += length
    yield part


def _remove_with_spools(folder: Path) -> None:
    from backup_engine.process import remove_spools  # not loaded in an idle agent

    remove_spools(folder)


def _nothing() -> None:
    pass
