"""Creates, imports, changes and forgets repositories."""

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import field, replace
from typing import Annotated, Any

from fastapi import Depends
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from backup_engine.causes import ARCHIVES_UNREADABLE
from backup_engine.detect import EngineUnsupported
from backup_engine.frozen import frozen
from backup_engine.interface import Engine
from backup_engine.requests import (
    BreakLockRequest,
    CreateRequest,
    InfoRequest,
    InitRequest,
    InvalidRequest,
    KeyExportRequest,
    ListArchivesRequest,
    RepositoryLocation,
)
from backup_engine.results import GarbledOutput, InfoResult, parse_repository
from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.api.parts import Part
from holdfast.errors import Conflict, Locked, Unprocessable
from holdfast.execution.engines import FAR_BASE
from holdfast.kit import clock
from holdfast.operations import pages, queue, transitions
from holdfast.operations.locks import Access
from holdfast.repositories import agent_target, errors, store
from holdfast.repositories.agent_register import AgentRegister
from holdfast.repositories.cloud import CloudPlaces
from holdfast.repositories.corrections import Corrections
from holdfast.repositories.engine_queries import nothing_of, query_engine
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.repositories.place import Place, place_of
from holdfast.repositories.record import new_record
from holdfast.repositories.schemas import (
    NOT_ENCRYPTED,
    ImportedRepository,
    NewRepository,
    RepositoryChange,
    RepositoryPlace,
    RepositorySettings,
)
from holdfast.runner.inline import InlineCalls
from holdfast.storage.session import Database

ImportListener = Callable[[Session, Repository], None]
ModeListener = Callable[[Session, Repository, str, str], None]


@frozen
class Register:
    """The use cases that change which repositories exist."""

    database: Database
    inline: InlineCalls
    opener: Opener
    agents: AgentRegister
    corrections: Corrections
    cloud: CloudPlaces
    on_import: list[ImportListener] = field(default_factory=list)
    on_index_mode: list[ModeListener] = field(default_factory=list)
    on_forget: list[ImportListener] = field(default_factory=list)

    def create(self, caller: Caller, wanted: NewRepository) -> Repository:
        """Run the engine's init and store the repository. Nothing is stored if the engine refuses.

        A repository on an agent is stored immediately, and becomes ready when the agent has run the engine.
        """
        wanted = self.cloud.with_local_folder(wanted)
        own_sources = self._own_sources(wanted)
        if wanted.execution_target == "agent":
            return self.agents.create(caller, wanted)
        place = self.cloud.place_on_remote(wanted) or place_of(wanted, self.opener.machines)
        engine, location = self._opened_by(place, wanted)
        check_settings(engine, location, wanted)
        with self.inline.hold(_lane_of(place), access=Access.CHANGE) as hold:
            self._still_free(place, wanted.name)
            made = hold.run(engine.init(location, InitRequest(wanted.encryption)))
            if made.outcome.status not in ("completed", "completed_with_warnings"):
                raise errors.refused_by_engine(made.outcome)
            known = self._read(hold.run(engine.info(location, InfoRequest())))
            return self._store(
                caller,
                place,
                wanted,
                wanted.encryption,
                location.passphrase,
                known,
                "repository.created",
                own_sources=own_sources,
            )

    def import_existing(self, caller: Caller, wanted: ImportedRepository) -> Repository:
        """Open an existing repository and store it. Nothing is stored if it does not open.

        Importing counts as consent to a relocated repository.
        """
        own_sources = self._own_sources(wanted)
        if wanted.execution_target == "agent":
            return self.agents.import_existing(caller, wanted)
        place = self.cloud.place_on_remote(wanted) or place_of(wanted, self.opener.machines)
        if wanted.keyfile is not None and place.runs_on is not None:
            raise Unprocessable(
                "repository.keyfile_on_machine",
                f"The key belongs on the machine that runs the engine; copy it there to {FAR_BASE}/.config/borg/keys.",
            )
        engine, location = self._opened_by(place, wanted)
        location = replace(location, relocated_ok=True, older="accept" if wanted.older_ok else "refuse")
        check_settings(engine, location, wanted)
        number = uuid.uuid4().hex
        given = wanted.keyfile.get_secret_value() if wanted.keyfile else None
        key_file = self.opener.key_files.put_given(self.database, number, given) if given else None
        try:
            with self.inline.hold(_lane_of(place), access=Access.CHANGE) as hold:
                self._still_free(place, wanted.name)
                opened = hold.run(engine.info(location, InfoRequest()))
                if (
                    opened.outcome.error_key in ARCHIVES_UNREADABLE
                ):  # one malformed archive does not discredit the others
                    opened = hold.run(engine.list_archives(location, ListArchivesRequest(last=1, names_only=True)))
                if opened.outcome.status not in ("completed", "completed_with_warnings"):
                    raise errors.refused_by_engine(opened.outcome, passphrase_given=location.passphrase is not None)
                known = self._read(opened)
                encryption = (known.encryption if known else None) or wanted.encryption or "unknown"
                return self._store(
                    caller,
                    place,
                    wanted,
                    encryption,
                    location.passphrase,
                    known,
                    "repository.imported",
                    own_sources=own_sources,
                    number=number,
                )
        except BaseException:
            if key_file is not None:
                key_file.unlink(missing_ok=True)
            raise

    def change(self, caller: Caller, repository_id: int, wanted: RepositoryChange) -> Repository:
        """Change settings. A new passphrase is tried on the repository before it is stored."""
        with self.database.reading() as session:
            repository = store.get(session, repository_id)
            if repository is None:
                raise errors.unknown(repository_id)
            own_sources = self._changed_own_sources(session, repository, wanted)
        changes = wanted.model_dump(exclude_unset=True, exclude={"passphrase", "path", "own_places_confirmed"})
        _refuse_empty(changes)
        _check_of_agents(repository, wanted)
        self._check_changed_settings(repository, changes)
        if own_sources is not None:
            changes["own_sources"] = own_sources
        sealed = None
        if wanted.passphrase is not None:
            sealed = self._tried_passphrase(repository, wanted.passphrase.get_secret_value())
        if wanted.path is not None and wanted.path != repository.path:
            self.corrections.move(caller, repository, wanted.path)
        with self.database.writing() as session:
            return self._apply(session, caller, repository_id, changes, sealed)

    def forget(self, caller: Caller, repository_id: int) -> None:
        """Remove the record, never the data. Refused while an operation runs; waiting ones are cancelled."""
        with self.database.writing() as session:
            repository = store.get(session, repository_id)
            if repository is None:
                raise errors.unknown(repository_id)
            queue.serialise_claims(session)
            if running := pages.running_of_repositories(session, [repository_id]):
                raise errors.operation_running(running[repository_id].id)
            cancelled = transitions.cancel_pending_of_repository(session, repository_id)
            details = {"name": repository.name, "cancelled_operations": cancelled}
            audit.note(session, caller, "repository.deleted", "repository", repository_id, details)
            for listener in self.on_forget:
                listener(session, repository)
            session.delete(repository)
            store.publish(session, repository_id, "deleted")

    def export_key(self, caller: Caller, repository: Repository) -> str:
        if repository.encryption == "none":
            raise Conflict("repository.no_key", "An unencrypted repository has no key.")
        key = query_engine(
            self.inline,
            self.opener,
            repository,
            lambda engine, location: engine.key_export(location, KeyExportRequest()),
            lambda step: step.stdout.read_text(),
        )
        with self.database.writing() as session:
            store.note_evidence(session, repository.id, key_exported_at=clock.now())
            audit.note(session, caller, "repository.key_exported", "repository", repository.id)
        return key

    def break_lock(self, caller: Caller, repository: Repository) -> None:
        """Remove the engine's locks. Refused while an operation of the service runs: its lock is not stale."""
        try:
            query_engine(
                self.inline,
                self.opener,
                repository,
                lambda engine, location: engine.break_lock(location, BreakLockRequest()),
                nothing_of,
                access=Access.CHANGE,
                wait_seconds=0,
            )
        except Locked as error:
            if error.key != "repository.busy":
                raise
            raise Conflict(
                "repository.operation_running",
                "An operation of this repository is running; its lock is in use.",
                **error.params,
            ) from error
        with self.database.writing() as session:
            audit.note(session, caller, "repository.lock_broken", "repository", repository.id)

    def confirm_relocation(self, caller: Caller, repository: Repository) -> None:
        """Open the repository with the user's confirmation that it was moved on purpose; the engine remembers this."""
        self._open(repository, self.opener.location(repository, relocated_ok=True))
        with self.database.writing() as session:
            audit.note(session, caller, "repository.relocation_confirmed", "repository", repository.id)

    # --- parts ----------------------------------------------------------------------------------------------------

    def _opened_by(self, place: Place, wanted: NewRepository | ImportedRepository) -> tuple[Engine, RepositoryLocation]:
        """Return the engine for a repository that is not stored yet, and the location that it needs."""
        location = RepositoryLocation(
            place.path,
            wanted.passphrase.get_secret_value() if wanted.passphrase else None,
            wanted.encryption,
            wanted.remote_path,
            unencrypted_ok=wanted.encryption in NOT_ENCRYPTED,
        )
        kinds = wanted.repository_type, wanted.execution_target
        reached = self.opener.with_access(location, *kinds, place.ssh_connection_id, place.rclone_remote_id)
        return self.opener.engine_of_major(wanted.engine_version, place.runs_on), reached

    def _own_sources(self, wanted: RepositoryPlace) -> list[str]:
        with self.database.reading() as session:
            return self.opener.own_places.admitted(
                session, wanted.execution_target, wanted.source_paths, (), confirmed=wanted.own_places_confirmed
            )

    def _changed_own_sources(
        self, session: Session, repository: Repository, wanted: RepositoryChange
    ) -> list[str] | None:
        """Return the confirmed own sources; None if the change does not affect the sources or their confirmation."""
        if wanted.source_paths is None and not wanted.own_places_confirmed:
            return None
        sources = repository.source_paths if wanted.source_paths is None else wanted.source_paths
        return self.opener.own_places.admitted(
            session,
            repository.execution_target,
            sources,
            repository.own_sources,
            confirmed=wanted.own_places_confirmed,
        )

    def _still_free(self, place: Place, name: str) -> None:
        with self.database.reading() as session:
            here = place.path if place.runs_on is None else None
            store.require_unused(session, path=here, place=place.identity, name=name)

    def _read(self, step: Any) -> InfoResult | None:
        try:
            return parse_repository(step.stdout.read_bytes())
        except (GarbledOutput, OSError):
            return None

    def _store(
        self,
        caller: Caller,
        place: Place,
        wanted: RepositoryPlace,
        encryption: str,
        passphrase: str | None,
        known: InfoResult | None,
        action: str,
        *,
        own_sources: list[str],
        number: str | None = None,
    ) -> Repository:
        repository = new_record(
            self.opener,
            wanted,
            number=number or uuid.uuid4().hex,
            path=place.path,
            identity=place.identity,
            encryption=encryption,
            passphrase=passphrase,
            known=known,
            ssh_connection_id=place.ssh_connection_id,
            rclone_remote_id=place.rclone_remote_id,
            own_sources=own_sources,
        )
        try:
            with self.database.writing() as session:
                session.add(repository)
                session.flush()
                store.publish(session, repository.id, "created")
                details = {"name": repository.name, "path": place.path, **_confirmed(own_sources)}
                audit.note(session, caller, action, "repository", repository.id, details)
                if action == "repository.imported":
                    for listener in self.on_import:
                        listener(session, repository)
                self.cloud.created(session, caller, repository, wanted)
        except IntegrityError as error:
            raise errors.path_taken() from error
        return repository

    def _check_changed_settings(self, repository: Repository, changes: dict[str, Any]) -> None:
        if repository.execution_target == "agent" or not _needs_engine(changes):
            return
        engine = self.opener.engine(repository)
        merged = RepositorySettings.model_validate(
            {
                name: changes.get(name, getattr(repository, name))
                for name in RepositorySettings.model_fields
                if name != "retention"
            }
        )
        check_settings(engine, RepositoryLocation(repository.path), merged)

    def _tried_passphrase(self, repository: Repository, passphrase: str) -> str:
        if repository.encryption == "none":
            raise Unprocessable("repository.no_key", "An unencrypted repository has no passphrase.")
        if repository.execution_target == "agent":
            return self.opener.seal(repository.uuid, passphrase)  # only its agent can try it
        location = replace(self.opener.location(repository), passphrase=passphrase, unencrypted_ok=False)
        self._open(repository, location)
        return self.opener.seal(repository.uuid, passphrase)

    def _open(self, repository: Repository, location: RepositoryLocation) -> None:
        """Let the engine open the repository once at this location."""
        query_engine(
            self.inline,
            self.opener,
            repository,
            lambda engine, place: engine.info(place, InfoRequest()),
            nothing_of,
            location=location,
        )

    def _apply(
        self, session: Session, caller: Caller, repository_id: int, changes: dict[str, Any], sealed: str | None
    ) -> Repository:
        repository = store.get(session, repository_id)
        if repository is None:
            raise errors.unknown(repository_id)
        store.require_unused(session, name=changes.get("name"), but=repository_id)
        old_mode = repository.index_mode
        if "agent_machine_id" in changes:
            _give_to(session, repository, changes["agent_machine_id"])
        for name, value in changes.items():
            if name == "retention":
                value = {rule: count for rule, count in value.items() if count is not None}
            setattr(repository, name, value)
        if sealed is not None:
            repository.passphrase = sealed
            key = self.opener.key_files.renewed(repository.uuid, repository.engine_id, repository.keyfile)
            repository.keyfile = key or repository.keyfile
        repository.updated_at = clock.now()
        session.flush()
        store.publish(session, repository_id, "changed")
        if repository.index_mode != old_mode:
            self._index_mode_changed(session, repository, old_mode)
        fields = sorted([*changes, *(["passphrase"] if sealed is not None else [])])
        details = {"fields": fields, **_confirmed(changes.get("own_sources"))}
        audit.note(session, caller, "repository.changed", "repository", repository_id, details)
        return repository

    def _index_mode_changed(self, session: Session, repository: Repository, old_mode: str) -> None:
        if old_mode == "full":
            transitions.cancel_pending_of_repository(session, repository.id, categories=("index",))
        for listener in self.on_index_mode:
            listener(session, repository, old_mode, repository.index_mode)


REGISTER = Part[Register]("register")
TheRegister = Annotated[Register, Depends(REGISTER)]


def check_settings(engine: Any, location: RepositoryLocation, wanted: RepositorySettings) -> None:
    """Build a backup command from the settings, to detect now what the engine would refuse later."""
    for source in wanted.source_paths:
        if not source.startswith("/"):
            raise Unprocessable("repository.source_not_absolute", "Source paths must be absolute.")
    request = CreateRequest(
        archive_name="name",
        source_paths=tuple(wanted.source_paths) or ("/",),
        exclude_patterns=tuple(wanted.exclude_patterns),
        compression=wanted.compression,
        custom_flags=tuple(wanted.custom_flags),
        upload_ratelimit_kib=wanted.upload_ratelimit_kib,
    )
    try:
        engine.create(location, request)
    except (InvalidRequest, EngineUnsupported) as error:
        raise Unprocessable(error.key, str(error)) from error


def _confirmed(own_sources: list[str] | None) -> dict[str, list[str]]:
    return {"confirmed_own_sources": own_sources} if own_sources else {}


def _needs_engine(changes: dict[str, Any]) -> bool:
    return bool(
        {"source_paths", "exclude_patterns", "compression", "custom_flags", "upload_ratelimit_kib"} & set(changes)
    )


def _refuse_empty(changes: dict[str, Any]) -> None:
    """Raise Unprocessable if a setting that must have a value is set to null."""
    nullable = {"upload_ratelimit_kib", "remote_path"}
    for name, value in changes.items():
        if value is None and name not in nullable:
            raise Unprocessable("repository.value_missing", f"The field {name} cannot be null.", field=name)


def _check_of_agents(repository: Repository, wanted: RepositoryChange) -> None:
    """Check fields that apply only to repositories of agents, or never to them."""
    on_agent = repository.execution_target == "agent"
    if wanted.agent_machine_id is not None and not on_agent:
        raise Unprocessable("repository.not_on_agent", "The repository does not belong to an agent.")
    if on_agent and wanted.passphrase is not None and repository.passphrase_location == "agent":  # noqa: S105
        raise Unprocessable(
            "repository.passphrase_on_agent", "The passphrase is stored on the agent; set it on the agent's machine."
        )
    if on_agent and any(not source.startswith("/") for source in wanted.source_paths or ()):
        raise Unprocessable("repository.source_not_absolute", "Source paths must be absolute.")


def _give_to(session: Session, repository: Repository, agent_machine_id: int) -> None:
    """Assign the repository to another agent. Work queued for the old one must have ended."""
    agent_target.require_agent(session, agent_machine_id)
    if repository.agent_machine_id == agent_machine_id:
        return
    queue.serialise_claims(session)
    if active := pages.active(session, frozenset({repository.id}), of_repositories_only=True):
        raise errors.operation_running(active[0].id)
    identity = store.identity_on_agent(agent_machine_id, repository.path)
    store.require_unused(session, place=identity, but=repository.id)
    repository.identity = identity


def _lane_of(place: Place) -> str:
    return "place:" + hashlib.sha256(place.identity.encode("utf-8", "surrogateescape")).hexdigest()
