"""Database dumps: one archive with the dumps of all of a repository's databases, fed to the engine through pipes (see
``backup_engine.feed``).

An archive counts only if the feeder's records mark every dump as complete. If the engine's ending was not observed, the
sizes in the archive must also match the bytes that were fed; otherwise the archive is deleted and the dumps are
repeated.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from backup_engine.command import CalledAgent, Command, Machine
from backup_engine.dumps import Database, feeding
from backup_engine.environment import SEARCH_PATH
from backup_engine.far.request import ended_file
from backup_engine.feed import MOST_TABLES
from backup_engine.frozen import frozen
from backup_engine.listing import read_listing
from backup_engine.outcome import Accumulator
from backup_engine.requests import CreateRequest, ListFilesRequest
from backup_engine.results import CreateResult, GarbledOutput
from backup_jobs.backup import AFTER, STEP, BackupAttempt, Found
from backup_jobs.endings import Completed, Ended, Failed, Stopped, TryAgain
from backup_jobs.engine_host import EngineHost
from backup_jobs.host import Interrupted, Step
from backup_jobs.sources import Exclusions, Sources
from backup_jobs.work import EvidenceUnknown, Work, ended_without_success, readable
from backup_protocol import DatabaseBlock, DumpBlock

FAILED, UNPROVEN, REMOTE = "backup.dump_failed", "backup.dump_unproven", "backup.dump_not_here"
NOT_PROVEN = "The archive may not contain every dump in full. It was deleted, and the dumps are repeated."
NOT_DELETED = (
    "The archive {archive} may not contain every dump in full, and could not be deleted. Delete it; do not restore "
    "from it."
)
NOT_HERE = (
    "Database dumps over ssh need Python 3.9 or newer on the machine. Install python3, then test the connection again."
)
NO_DATABASES = "The repository has no databases to dump; add one first."
PASSWORD_GONE = "The password of the database {name} is no longer stored. No archive was made; set the password again."  # noqa: S105 - a sentence


MOST_OF_A_NAME = 200


RECORD: Mapping[str, Any] = {
    "name": str,
    "file": str,
    "complete": bool,
    "bytes": int,
    "end_seen": bool,
    "engine_gone": bool,
    "exit_code": int | None,
    "signal": int | None,
    "start_error": str | None,
    "sha256": str | None,
}
"""Fields of a feeder's record, with their types."""
INCONSISTENT = "inconsistent"
"""Optional field: tables that were dumped outside the transaction. Their number, and the names of some."""
NOT_CONSISTENT = (
    "The dump of {name} contains tables that may have changed during the dump: {tables}. Their storage engines do not "
    "support transactions. Convert them to InnoDB, or stop writing to them during dumps."
)


@frozen
class DumpWork(Work[DumpBlock]):
    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Passwords by the references used in the block."""
    programs: str = SEARCH_PATH
    """Search path for the dump programs. It belongs to the machine and is never part of a job."""

    def database(self, wanted: DatabaseBlock) -> Database:
        """Return the database with its password. Raise KeyError if the password is missing."""
        password = self.passwords[wanted.password_ref] if wanted.password_ref is not None else None
        place = wanted.database, wanted.host, wanted.port, wanted.user
        return Database(wanted.name, wanted.kind, *place, password)


class Dumps(Sources):
    """Dumps have no sources on disk."""

    expected_size = None

    def exclusions(self) -> Exclusions:
        return Exclusions()

    def outside(self) -> list[str]:
        return []

    def missing(self, sources: Sequence[str]) -> tuple[str, ...]:
        del sources
        return ()


def is_able(machine: Machine | CalledAgent | None) -> bool:
    """Whether the feeder can run on the engine's machine; None means this machine."""
    return machine is None or (isinstance(machine, Machine) and machine.python is not None)


def run(work: DumpWork) -> Ended:
    if not is_able(work.location.machine):
        return Failed(REMOTE, NOT_HERE)
    if not work.block.databases:
        return Failed("backup.no_databases", NO_DATABASES)
    for database in work.block.databases:
        if database.password_ref is not None and database.password_ref not in work.passwords:
            return Failed(FAILED, PASSWORD_GONE.format(name=database.name), details=_named(database.name))
    return _DumpAttempt(work).run()


def interrupted(work: DumpWork, interrupted: Interrupted) -> Ended:
    return _DumpAttempt(work).interrupted(interrupted)


class _DumpAttempt(BackupAttempt):
    def __init__(self, work: DumpWork) -> None:
        super().__init__(replace(work, known_sources=Dumps()))
        self._databases, self._programs = tuple(map(work.database, work.block.databases)), work.programs
        self._sources = tuple(database.file for database in self._databases)  # never the job's source paths

    def _command(self) -> Command:
        return feeding(super()._command(), self._databases, self._programs)

    def _request(self) -> CreateRequest:
        return replace(super()._request(), from_pipes=True)

    # --- endings --------------------------------------------------------------------------------------------------

    def _concluded(self, step: Step) -> Ended:
        broken = next((one for one in self._records() if not one["complete"] and not one["engine_gone"]), None)
        if broken is None or isinstance(ended_without_success(self._host, step), Stopped):
            return super()._concluded(step)
        try:
            found = self._evidence(AFTER)
        except EvidenceUnknown as unknown:
            return self._ask_again(unknown)
        if found is not None and not self._remove("delete-unproven", self._address(found)):
            return self._not_deleted(found)
        return Failed(FAILED, _sentence(broken), step.exit.code, details=_named(broken["name"]))

    def _completed(self, step: Step, created: CreateResult) -> Completed:
        completed = super()._completed(step, created)
        return replace(completed, details={**completed.details, "dumps": self._shown()})

    def _success(self, completed: Completed, accumulator: Accumulator) -> Completed:
        if not self._all_complete():  # the engine's success proves nothing about dumps that left no record
            raise Interrupted(STEP, accumulator)
        self._host.log(*(f"{one['file']}: {one['bytes']} bytes, SHA-256 {one['sha256']}" for one in self._records()))
        sentences = [_not_consistent(one) for one in self._records() if INCONSISTENT in one]
        self._host.log(*sentences)
        ended = super()._success(completed, accumulator)
        warnings = tuple({"path": None, "message": sentence} for sentence in sentences)
        return replace(ended, warned=ended.warned or bool(sentences), warnings=(*ended.warnings, *warnings))

    def _by_evidence(self, found: Found, accumulator: Accumulator, line: str, *, warned: bool = False) -> Ended:
        if self._is_proven(found):
            ended = super()._by_evidence(found, accumulator, line, warned=warned)
            return replace(ended, details={**ended.details, "dumps": self._shown()})
        if not self._remove("delete-unproven", self._address(found)):
            return self._not_deleted(found)
        return Stopped() if self._host.is_cancelled() else TryAgain(UNPROVEN, NOT_PROVEN)

    def _not_deleted(self, found: Found) -> Failed:
        return Failed(UNPROVEN, NOT_DELETED.format(archive=found.archive.name), details=_named(found.archive.name))

    def _address(self, found: Found) -> str:
        return self._work.engine.address(found.archive.name, found.archive.id)

    # --- proof ----------------------------------------------------------------------------------------------------

    def _records(self) -> list[dict[str, Any]]:
        """The feeder's records of this attempt, in the order of the dumps. The list ends at the first missing
        record.
        """
        if not isinstance(self._host, EngineHost):
            return []
        folder = self._host.folder / STEP
        is_far = self._work.location.machine is not None
        reported = _reported(ended_file(folder)) if is_far else _read(folder, len(self._databases))
        pairs = zip(self._databases, reported, strict=False)
        return [record for database, record in pairs if _is_record(record, database)]

    def _all_complete(self) -> bool:
        records = self._records()
        return len(records) == len(self._databases) and all(one["complete"] for one in records)

    def _is_proven(self, found: Found) -> bool:
        """Whether every dump was complete, and its size in the archive equals the number of bytes fed."""
        if not self._all_complete():
            return False
        request = ListFilesRequest(self._address(found), exact=True)
        command = self._work.engine.list_files(self._work.location, request)
        with self._work.evidence_step("proof", command).stdout.open("rb") as stream:
            try:
                sizes = {item.path: item.size for item in read_listing(iter(lambda: stream.read(65536), b""))}
            except GarbledOutput:
                return False
        return sizes == {one["file"].encode(): one["bytes"] for one in self._records()}

    def _shown(self) -> list[dict[str, Any]]:
        return [{name: one[name] for name in ("name", "file", "bytes", "sha256")} for one in self._records()]


def _read(folder: Path, number: int) -> Iterable[dict[str, Any]]:
    for place in range(1, number + 1):
        try:
            yield json.loads((folder / f"dump-{place}.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return


def _reported(file: Path) -> list[Any]:
    """Read the records that an ssh machine sent at the end of its run."""
    try:
        reported = json.loads(file.read_bytes())["dumps"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return []
    return reported if isinstance(reported, list) else []


def _is_record(record: Any, database: Database) -> bool:
    """Whether this is a complete record of this dump: other machines may send anything."""
    if not isinstance(record, dict) or record.keys() - {INCONSISTENT} != RECORD.keys():
        return False
    if INCONSISTENT in record and not _names_tables(record[INCONSISTENT]):
        return False
    if (record["name"], record["file"]) != (database.name, database.file):
        return False
    return all(isinstance(record[name], kind) for name, kind in RECORD.items())


def _names_tables(found: Any) -> bool:
    if not isinstance(found, dict) or found.keys() != {"tables", "count"}:
        return False
    tables, count = found["tables"], found["count"]
    if not isinstance(tables, list) or not isinstance(count, int):
        return False
    return 0 < len(tables) <= min(MOST_TABLES, count) and all(isinstance(table, str) for table in tables)


def _not_consistent(record: Mapping[str, Any]) -> str:
    tables, count = record[INCONSISTENT]["tables"], record[INCONSISTENT]["count"]
    shown = ", ".join(readable(table)[:MOST_OF_A_NAME] for table in tables)
    return NOT_CONSISTENT.format(
        name=record["name"], tables=f"{shown} and {count - len(tables)} more" if count > len(tables) else shown
    )


def _named(name: str) -> dict[str, Any]:
    return {"error_params": {"database": name}}


def _sentence(record: dict[str, Any]) -> str:
    if record["start_error"]:
        why = f"its program could not be started ({record['start_error']})"
    elif record["signal"]:
        why = f"its program was ended by signal {record['signal']}"
    elif record["exit_code"]:
        why = f"its program exited with code {record['exit_code']}"
    else:
        why = "it ends too early"
    return f"The dump of {record['name']} failed: {why}. No archive was made; see the program's output in the log."
