"""Decisions reserved for admins: the repository was moved, or replaced by another one or by an older copy of itself."""

from dataclasses import replace
from typing import Any

from sqlalchemy.exc import IntegrityError

from backup_engine.causes import LOCKED
from backup_engine.command import Older
from backup_engine.frozen import frozen
from backup_engine.requests import InfoRequest, ListArchivesRequest, RepositoryLocation
from backup_engine.results import ArchiveInfo, InfoResult, parse_info
from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.errors import Conflict, Locked, Unprocessable
from holdfast.kit import clock
from holdfast.operations.locks import Access
from holdfast.operations.models import Operation
from holdfast.repositories import archive_records, errors, store
from holdfast.repositories.agent_register import AgentRegister
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.engine_queries import archives_of, query_engine
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.repositories.place import place_of
from holdfast.repositories.schemas import ImportedRepository, MissingArchive, OlderAnswer
from holdfast.runner.inline import InlineCalls
from holdfast.storage.session import Database

SUCCEEDED = ("completed", "completed_with_warnings")
MOST_NAMED = 1000


@frozen
class Corrections:
    database: Database
    inline: InlineCalls
    opener: Opener
    agents: AgentRegister

    # --- an older state ---------------------------------------------------------------------------------------------

    def confirm_older(self, caller: Caller, repository: Repository, *, dry_run: bool) -> OlderAnswer:
        """Let the engine use an older state than the last one it has seen, and mark the missing archives as lost.

        A dry run only reports what is missing and leaves the engine's record unchanged.
        """
        listed = self._listed(repository, "look" if dry_run else "accept")
        present = {archive.id for archive in listed}
        with self.database.writing() if not dry_run else self.database.reading() as session:
            known = archive_records.all_of(session, repository.id)
            missing = [archive for archive in known if archive.engine_id not in present]
            if not dry_run:
                archive_records.mark_lost(session, repository.id, [archive.id for archive in missing])
                details = {"missing_archives": len(missing), "names": [archive.name for archive in missing[:100]]}
                audit.note(session, caller, "repository.older_confirmed", "repository", repository.id, details)
                store.publish(session, repository.id, "changed", "archives")
        return OlderAnswer(
            repository_id=repository.id,
            confirmed=not dry_run,
            archives=len(listed),
            missing=[_named(archive) for archive in missing[:MOST_NAMED]],
            missing_count=len(missing),
        )

    def _listed(self, repository: Repository, older: Older) -> list[ArchiveInfo]:
        return query_engine(
            self.inline,
            self.opener,
            repository,
            lambda engine, location: engine.list_archives(location, ListArchivesRequest(names_only=True)),
            archives_of,
            location=self.opener.location(repository, older=older),
            access=Access.CHANGE,
        )

    # --- another repository -------------------------------------------------------------------------------------------

    def accept_replacement(
        self, caller: Caller, repository: Repository, passphrase: str | None
    ) -> tuple[str | None, Operation | None]:
        """Register the repository that is now at the path, and return its id.

        If an agent opens it, the id is known only after the returned operation has ended.
        """
        if repository.execution_target == "agent":
            return None, self._let_agent_open(caller, repository, passphrase)
        location = replace(self.opener.location(repository, relocated_ok=True, older="accept"), engine_id=None)
        if passphrase is not None:
            location = replace(location, passphrase=passphrase)
        opened = self._opened(repository, location)
        with self.database.writing() as session:
            row = session.get_one(Repository, repository.id)
            before, row.engine_id = row.engine_id, opened.repository_id
            if passphrase is not None:
                row.passphrase = self.opener.seal(row.uuid, passphrase)
            if opened.encryption:
                row.encryption = opened.encryption
                row.has_keyfile = opened.encryption.startswith("keyfile")
            row.updated_at = clock.now()
            session.flush()
            self._record(session, caller, row, before=before, now=opened.repository_id)
        return opened.repository_id, None

    def _let_agent_open(self, caller: Caller, repository: Repository, passphrase: str | None) -> Operation:
        with self.database.writing() as session:
            row = session.get_one(Repository, repository.id)
            before, row.engine_id = row.engine_id, None
            if passphrase is not None:
                row.passphrase = self.opener.seal(row.uuid, passphrase)
            operation = self.agents.open_again(session, caller, row, older_ok=True)
            self._record(session, caller, row, before=before, now=None)
        return operation

    def _record(self, session: Any, caller: Caller, repository: Repository, **details: Any) -> None:
        audit.note(session, caller, "repository.replacement_accepted", "repository", repository.id, details)
        store.publish(session, repository.id, "changed")

    # --- another place ------------------------------------------------------------------------------------------------

    def move(self, caller: Caller, repository: Repository, path: str) -> None:
        """Correct the path of a repository that was moved. The same repository must be there."""
        if repository.repository_type == "rclone" or repository.rclone_remote_id is not None:
            raise Unprocessable("repository.unsupported_target", "The address of a cloud repository cannot be changed.")
        if repository.execution_target == "agent":
            self._move_on_agent(caller, repository, path)
            return
        place = place_of(_as_import(repository, path), self.opener.machines)
        with self.database.reading() as session:
            here = place.path if place.runs_on is None else None
            store.require_unused(session, path=here, place=place.identity, but=repository.id)
        location = replace(self.opener.location(repository, relocated_ok=True), path=place.path)
        opened = self._opened(repository, location)
        try:
            with self.database.writing() as session:
                row = session.get_one(Repository, repository.id)
                before, row.path, row.identity = row.path, place.path, place.identity
                row.ssh_connection_id = place.ssh_connection_id
                row.engine_id = row.engine_id or opened.repository_id
                session.flush()
                self._moved(session, caller, row, before)
        except IntegrityError as error:
            raise errors.path_taken() from error

    def _move_on_agent(self, caller: Caller, repository: Repository, path: str) -> None:
        path = store.normal_path(path)
        if repository.repository_type == "local" and (not path.startswith("/") or path == "/"):
            raise Unprocessable("repository.path_not_absolute", "The path of a local repository must be absolute.")
        with self.database.writing() as session:
            row = session.get_one(Repository, repository.id)
            identity = store.identity_on_agent(row.agent_machine_id or 0, path)
            store.require_unused(session, place=identity, but=row.id)
            before, row.path, row.identity = row.path, path, identity
            self.agents.open_again(session, caller, row)
            self._moved(session, caller, row, before)

    def _moved(self, session: Any, caller: Caller, repository: Repository, before: str) -> None:
        audit.note(
            session, caller, "repository.moved", "repository", repository.id, {"from": before, "to": repository.path}
        )
        store.publish(session, repository.id, "changed")

    def _opened(self, repository: Repository, location: RepositoryLocation) -> InfoResult:
        """Open the repository while the service does no other work on it. Raise Conflict otherwise."""
        try:
            return query_engine(
                self.inline,
                self.opener,
                repository,
                lambda engine, place: engine.info(place, InfoRequest()),
                lambda step: parse_info(step.stdout.read_bytes()),
                location=location,
                access=Access.CHANGE,
            )
        except Locked as error:
            if error.key == LOCKED:
                raise
            words = "An operation of this repository is running; wait for it or cancel it first."
            raise Conflict("repository.operation_running", words, **error.params) from error


def _named(archive: Archive) -> MissingArchive:
    return MissingArchive.from_row(archive)


def _as_import(repository: Repository, path: str) -> ImportedRepository:
    """Describe the repository at another path as an import request would."""
    return ImportedRepository.model_validate(
        {
            "name": repository.name,
            "path": path,
            "engine_version": repository.engine_version,
            "repository_type": repository.repository_type,
            "execution_target": repository.execution_target,
            "ssh_connection_id": repository.ssh_connection_id,
        }
    )
