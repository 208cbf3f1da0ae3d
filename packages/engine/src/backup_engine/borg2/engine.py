"""The engine of major 2: arguments from the module of each command, environment and secrets from the location."""

from backup_engine import requests
from backup_engine.base import Arguments, EngineBase
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
    undelete_archive,
)
from backup_engine.command import Command
from backup_engine.requests import RepositoryLocation


class Borg2Engine(EngineBase):
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

    def address(self, name: str, engine_id: str | None) -> str:
        return f"aid:{engine_id}" if engine_id else name

    def _probe(self, location: RepositoryLocation) -> tuple[str, ...]:
        return info.command(location, requests.InfoRequest(), self.lock_wait)

    def create(self, location: RepositoryLocation, request: requests.CreateRequest) -> Command:
        return self._command(location, create.command(location, request, self.lock_wait))

    def undelete_archive(self, location: RepositoryLocation, request: requests.UndeleteArchiveRequest) -> Command:
        return self._command(location, undelete_archive.command(location, request, self.lock_wait))

    def prune(self, location: RepositoryLocation, request: requests.PruneRequest) -> Command:
        arguments = prune.command(location, request, self.lock_wait)
        return self._command(location, arguments, quick=request.dry_run, read_whole=request.dry_run)
