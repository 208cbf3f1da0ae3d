"""The engine of major 2: arguments from the command's own file, environment and secrets from the location."""

from backup_engine import requests
from backup_engine.base import REPAIR_IS_MEANT, EngineBase
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
from backup_engine.requests import RepositoryLocation


class Borg2Engine(EngineBase):
    __slots__ = ()

    def address(self, name: str, engine_id: str | None) -> str:
        return f"aid:{engine_id}" if engine_id else name

    def _probe(self, location: RepositoryLocation) -> tuple[str, ...]:
        return info.command(location, requests.InfoRequest(), self.lock_wait)

    def init(self, location: RepositoryLocation, request: requests.InitRequest) -> Command:
        return self._command(location, init.command(location, request, self.lock_wait))

    def create(self, location: RepositoryLocation, request: requests.CreateRequest) -> Command:
        return self._command(location, create.command(location, request, self.lock_wait))

    def list_archives(self, location: RepositoryLocation, request: requests.ListArchivesRequest) -> Command:
        arguments = list_archives.command(location, request, self.lock_wait)
        return self._command(location, arguments, quick=True, tells_id=True, read_whole=True)

    def info(self, location: RepositoryLocation, request: requests.InfoRequest) -> Command:
        arguments = info.command(location, request, self.lock_wait)
        return self._command(location, arguments, quick=True, tells_id=True, read_whole=True)

    def delete_archive(self, location: RepositoryLocation, request: requests.DeleteArchiveRequest) -> Command:
        return self._command(location, delete_archive.command(location, request, self.lock_wait))

    def undelete_archive(self, location: RepositoryLocation, request: requests.UndeleteArchiveRequest) -> Command:
        return self._command(location, undelete_archive.command(location, request, self.lock_wait))

    def break_lock(self, location: RepositoryLocation, request: requests.BreakLockRequest) -> Command:  # noqa: ARG002
        return self._command(location, break_lock.command(location, self.lock_wait), quick=True, must_tell=False)

    def key_export(self, location: RepositoryLocation, request: requests.KeyExportRequest) -> Command:  # noqa: ARG002
        return self._command(location, key_export.command(location, self.lock_wait), quick=True, read_whole=True)

    def prune(self, location: RepositoryLocation, request: requests.PruneRequest) -> Command:
        arguments = prune.command(location, request, self.lock_wait)
        return self._command(location, arguments, quick=request.dry_run, read_whole=request.dry_run)

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
