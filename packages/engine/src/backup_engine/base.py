"""Base of the engines of all majors: the program, its environment, and how arguments become a command."""

from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol, TypeVar

from backup_engine import requests
from backup_engine.command import LARGEST_RESULT, LARGEST_STREAM, Command, RepositoryGuard
from backup_engine.detect import EngineProgram
from backup_engine.environment import EngineEnvironment, location_secrets
from backup_engine.features import Features, features
from backup_engine.frozen import frozen
from backup_engine.requests import RepositoryLocation

REPAIR_IS_MEANT: Mapping[str, str] = {"BORG_CHECK_I_KNOW_WHAT_I_AM_DOING": "YES"}


Request = TypeVar("Request", contravariant=True)
Plain = Callable[[RepositoryLocation, int], tuple[str, ...]]


class For(Protocol[Request]):
    """Builds a command's arguments from a location, a request and the seconds to wait for a lock."""

    def __call__(self, location: RepositoryLocation, request: Request, lock_wait: int, /) -> tuple[str, ...]: ...


@frozen
class Arguments:
    """Argument builders for the commands that both majors have, each from a module of its major."""

    init: For[requests.InitRequest]
    list_archives: For[requests.ListArchivesRequest]
    info: For[requests.InfoRequest]
    delete_archive: For[requests.DeleteArchiveRequest]
    break_lock: Plain
    key_export: Plain
    compact: For[requests.CompactRequest]
    check: For[requests.CheckRequest]
    extract: For[requests.ExtractRequest]
    export_tar: For[requests.ExportTarRequest]
    list_files: For[requests.ListFilesRequest]
    diff: For[requests.DiffRequest]


@frozen
class EngineBase:
    arguments: ClassVar[Arguments]
    program: EngineProgram
    environment: EngineEnvironment
    lock_wait: int

    @property
    def features(self) -> Features:
        return features(self.program)

    def _command(
        self,
        location: RepositoryLocation,
        arguments: tuple[str, ...],
        *,
        quick: bool = False,
        tells_id: bool = False,
        must_tell: bool = True,
        variables: Mapping[str, str] | None = None,
        working_directory: str | None = None,
        read_whole: bool = False,
    ) -> Command:
        """Build a command. `read_whole` limits its output, because the caller reads all of it into memory."""
        return Command(
            argv=(self.program.path, *arguments),
            environment={**self.environment.variables(location, quick=quick), **(variables or {})},
            secrets=location_secrets(location),
            working_directory=working_directory,
            machine=location.machine,
            most_output=LARGEST_RESULT if read_whole else LARGEST_STREAM,
            guard=RepositoryGuard(
                major=self.program.major,
                engine_id=location.engine_id,
                path=_folder(location.path),
                program=self.program.path,
                probe=self._probe(location),
                must_tell=must_tell,
                tells_id=tells_id,
                older=location.older,
            ),
        )

    def init(self, location: RepositoryLocation, request: requests.InitRequest) -> Command:
        return self._command(location, self.arguments.init(location, request, self.lock_wait))

    def list_archives(self, location: RepositoryLocation, request: requests.ListArchivesRequest) -> Command:
        arguments = self.arguments.list_archives(location, request, self.lock_wait)
        return self._command(location, arguments, quick=True, tells_id=True, read_whole=True)

    def info(self, location: RepositoryLocation, request: requests.InfoRequest) -> Command:
        arguments = self.arguments.info(location, request, self.lock_wait)
        return self._command(location, arguments, quick=True, tells_id=True, read_whole=True)

    def delete_archive(self, location: RepositoryLocation, request: requests.DeleteArchiveRequest) -> Command:
        return self._command(location, self.arguments.delete_archive(location, request, self.lock_wait))

    def break_lock(self, location: RepositoryLocation, request: requests.BreakLockRequest) -> Command:  # noqa: ARG002
        return self._command(location, self.arguments.break_lock(location, self.lock_wait), quick=True, must_tell=False)

    def key_export(self, location: RepositoryLocation, request: requests.KeyExportRequest) -> Command:  # noqa: ARG002
        return self._command(location, self.arguments.key_export(location, self.lock_wait), quick=True, read_whole=True)

    def compact(self, location: RepositoryLocation, request: requests.CompactRequest) -> Command:
        return self._command(location, self.arguments.compact(location, request, self.lock_wait))

    def check(self, location: RepositoryLocation, request: requests.CheckRequest) -> Command:
        arguments = self.arguments.check(location, request, self.lock_wait)
        return self._command(location, arguments, variables=REPAIR_IS_MEANT if request.repair else {})

    def extract(self, location: RepositoryLocation, request: requests.ExtractRequest) -> Command:
        arguments = self.arguments.extract(location, request, self.lock_wait)
        return self._command(location, arguments, working_directory=request.destination)

    def export_tar(self, location: RepositoryLocation, request: requests.ExportTarRequest) -> Command:
        return self._command(location, self.arguments.export_tar(location, request, self.lock_wait), quick=True)

    def list_files(self, location: RepositoryLocation, request: requests.ListFilesRequest) -> Command:
        return self._command(location, self.arguments.list_files(location, request, self.lock_wait), quick=True)

    def diff(self, location: RepositoryLocation, request: requests.DiffRequest) -> Command:
        return self._command(location, self.arguments.diff(location, request, self.lock_wait), quick=True)

    def _probe(self, location: RepositoryLocation) -> tuple[str, ...]:
        """Arguments that make the engine print the id of a repository with little other work."""
        raise NotImplementedError


def _folder(address: str) -> str | None:
    """The repository's folder on the engine's machine; None if it is stored elsewhere."""
    path = address.removeprefix("file://")
    return path if path.startswith("/") else None
