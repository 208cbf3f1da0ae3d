"""The engine of major 2: arguments from the command's own file, environment and secrets from the location."""

from collections.abc import Mapping
from dataclasses import dataclass

from backup_engine import requests
from backup_engine.borg2 import (
    break_lock,
    check,
    compact,
    create,
    delete_archive,
    diff,
    export_tar,
    extract,
    info,
    init,
    key_export,
    list_archives,
    list_files,
    prune,
    rename,
    undelete_archive,
)
from backup_engine.command import Command
from backup_engine.detect import EngineProgram
from backup_engine.environment import EngineEnvironment, passphrase_secrets
from backup_engine.features import Features, features
from backup_engine.requests import RepositoryLocation

REPAIR_IS_MEANT: Mapping[str, str] = {"BORG_CHECK_I_KNOW_WHAT_I_AM_DOING": "YES"}


@dataclass(frozen=True, slots=True)
class Borg2Engine:
    program: EngineProgram
    environment: EngineEnvironment
    lock_wait: int

    @property
    def features(self) -> Features:
        return features(self.program)

    def address(self, name: str, engine_id: str | None) -> str:
        return f"aid:{engine_id}" if engine_id else name

    def init(self, location: RepositoryLocation, request: requests.InitRequest) -> Command:
        return self._command(location, init.command(location, request, self.lock_wait))

    def create(self, location: RepositoryLocation, request: requests.CreateRequest) -> Command:
        return self._command(location, create.command(location, request, self.lock_wait))

    def list_archives(self, location: RepositoryLocation, request: requests.ListArchivesRequest) -> Command:
        return self._command(location, list_archives.command(location, request, self.lock_wait), quick=True)

    def info(self, location: RepositoryLocation, request: requests.InfoRequest) -> Command:
        return self._command(location, info.command(location, request, self.lock_wait), quick=True)

    def delete_archive(self, location: RepositoryLocation, request: requests.DeleteArchiveRequest) -> Command:
        return self._command(location, delete_archive.command(location, request, self.lock_wait))

    def undelete_archive(self, location: RepositoryLocation, request: requests.UndeleteArchiveRequest) -> Command:
        return self._command(location, undelete_archive.command(location, request, self.lock_wait))

    def break_lock(self, location: RepositoryLocation, request: requests.BreakLockRequest) -> Command:  # noqa: ARG002
        return self._command(location, break_lock.command(location, self.lock_wait), quick=True)

    def key_export(self, location: RepositoryLocation, request: requests.KeyExportRequest) -> Command:  # noqa: ARG002
        return self._command(location, key_export.command(location, self.lock_wait), quick=True)

    def prune(self, location: RepositoryLocation, request: requests.PruneRequest) -> Command:
        arguments = prune.command(location, request, self.lock_wait)
        return self._command(location, arguments, quick=request.dry_run)

    def compact(self, location: RepositoryLocation, request: requests.CompactRequest) -> Command:
        return self._command(location, compact.command(location, request, self.lock_wait))

    def check(self, location: RepositoryLocation, request: requests.CheckRequest) -> Command:
        arguments = check.command(location, request, self.lock_wait)
        return self._command(location, arguments, variables=REPAIR_IS_MEANT if request.repair else {})

    def extract(self, location: RepositoryLocation, request: requests.ExtractRequest) -> Command:
        arguments = extract.command(location, request, self.lock_wait)
        return self._command(location, arguments, working_directory=request.destination)

    def export_tar(self, location: RepositoryLocation, request: requests.ExportTarRequest) -> Command:
        return self._command(location, export_tar.command(location, request, self.lock_wait), quick=True)

    def list_files(self, location: RepositoryLocation, request: requests.ListFilesRequest) -> Command:
        return self._command(location, list_files.command(location, request, self.lock_wait), quick=True)

    def diff(self, location: RepositoryLocation, request: requests.DiffRequest) -> Command:
        return self._command(location, diff.command(location, request, self.lock_wait), quick=True)

    def rename(self, location: RepositoryLocation, request: requests.RenameRequest) -> Command:
        return self._command(location, rename.command(location, request, self.lock_wait))

    def _command(
        self,
        location: RepositoryLocation,
        arguments: tuple[str, ...],
        *,
        quick: bool = False,
        variables: Mapping[str, str] | None = None,
        working_directory: str | None = None,
    ) -> Command:
        return Command(
            argv=(self.program.path, *arguments),
            environment={**self.environment.variables(location, quick=quick), **(variables or {})},
            secrets=passphrase_secrets(location),
            working_directory=working_directory,
            machine=location.machine,
        )
