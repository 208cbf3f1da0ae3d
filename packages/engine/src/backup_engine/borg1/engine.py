"""The engine of major 1: arguments from the module of each command, environment and secrets from the location."""

from backup_engine import requests
from backup_engine.base import Arguments, EngineBase
from backup_engine.borg1 import (
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
)
from backup_engine.command import Command
from backup_engine.detect import EngineUnsupported
from backup_engine.requests import RepositoryLocation


class Borg1Engine(EngineBase):
    __slots__ = ()
    arguments = Arguments(
        init=init.command,
        list_archives=list_archives.command,
        info=info.command,
        delete_archive=delete_archive.command,
        break_lock=break_lock.command,
        key_export=key_export.command,
        compact=compact.command,
        check=check.command,
        extract=extract.command,
        export_tar=export_tar.command,
        list_files=list_files.command,
        diff=diff.command,
    )

    def address(self, name: str, engine_id: str | None) -> str:  # noqa: ARG002 -- a name is enough
        return name

    def _probe(self, location: RepositoryLocation) -> tuple[str, ...]:
        return list_archives.command(location, requests.ListArchivesRequest(last=1), self.lock_wait)

    def create(self, location: RepositoryLocation, request: requests.CreateRequest) -> Command:
        return self._command(location, create.command(self.features, location, request, self.lock_wait))

    def undelete_archive(self, location: RepositoryLocation, request: requests.UndeleteArchiveRequest) -> Command:  # noqa: ARG002
        raise EngineUnsupported("BorgBackup 1 cannot undelete archives.")

    def prune(self, location: RepositoryLocation, request: requests.PruneRequest) -> Command:
        arguments = prune.command(self.features, location, request, self.lock_wait)
        return self._command(location, arguments, quick=request.dry_run, read_whole=request.dry_run)
