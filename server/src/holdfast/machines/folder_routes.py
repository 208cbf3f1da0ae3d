"""Routes for folders of machines. Administrators only: listings show names that no repository reveals."""

import posixpath
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.orm import Session

from backup_jobs import paths
from holdfast.access.caller import AdminOnly
from holdfast.api.dependencies import TheDatabase
from holdfast.api.router import router
from holdfast.errors import Unprocessable
from holdfast.kit import cursor as cursors
from holdfast.machines import folders
from holdfast.machines.folder_schemas import (
    Estimate,
    EstimateRequest,
    Folder,
    FolderEntry,
    FolderRequest,
    ProbeAnswer,
    ProbedPlace,
    ProbedRepository,
)
from holdfast.machines.folders import Folders, FoundEntry, FoundRepository, Where
from holdfast.machines.machines import MACHINES
from holdfast.repositories import store as repositories
from holdfast.repositories.location import AGENT_ENGINES
from holdfast.runner.engine_requests import asks_engine

routes = router("/api/filesystem", "machines")
probes = router("/api/repositories", "repositories")


async def the_folders(request: Request) -> Folders:
    return Folders(MACHINES.of(request.app), AGENT_ENGINES.of(request.app))


TheFolders = Annotated[Folders, Depends(the_folders)]


@routes.post("/browse", summary="List a folder on the service's, an ssh or an agent's machine")
@asks_engine
def browse_folder(caller: AdminOnly, wanted: FolderRequest, asked: TheFolders) -> Folder:
    """Lists one folder, such as for choosing sources. Links are followed only to see whether they lead to a folder."""
    del caller
    path, after = absolute(wanted.path, wanted.path_b64), _after(wanted.cursor)
    where = machine_of(wanted.target, wanted.machine_id)
    found = asked.listing(where, path, after, wanted.limit, folders_only=wanted.folders_only)
    real = folders.bytes_of(found.path)
    names = [folders.bytes_of(entry.name) for entry in found.entries]
    return Folder(
        **_both_forms(real),
        entries=[_entry(real, name, entry) for name, entry in zip(names, found.entries, strict=True)],
        next_cursor=cursors.encode(names[-1].hex()) if found.more and names else None,
        truncated=found.cut_short,
    )


@routes.post("/estimate", summary="Estimate how much a backup of given paths would read")
@asks_engine
def estimate_paths(caller: AdminOnly, wanted: EstimateRequest, asked: TheFolders) -> Estimate:
    """Reads names and sizes, for at most 15 seconds; no file is opened."""
    del caller
    where = machine_of(wanted.target, wanted.machine_id)
    found = asked.size(where, [absolute(path, None) for path in wanted.paths])
    return Estimate(**found.model_dump())


@probes.post("/probe", summary="Inspect a path before creating or importing a repository there")
@asks_engine
def probe_place(caller: AdminOnly, wanted: ProbedPlace, asked: TheFolders, database: TheDatabase) -> ProbeAnswer:
    """Reads only files: no engine runs, nothing is written, and no passphrase is needed."""
    del caller
    path = absolute(wanted.path, None)
    if wanted.ssh_connection_id is not None and wanted.agent_machine_id is not None:
        raise _machine_unclear()
    found = asked.place(machine_of(wanted.execution_target, wanted.ssh_connection_id or wanted.agent_machine_id), path)
    with database.reading() as session:
        repository = _repository(session, found.repository) if found.repository is not None else None
    return ProbeAnswer(path=paths.readable(path), **found.model_dump(exclude={"repository"}), repository=repository)


def _repository(session: Session, found: FoundRepository) -> ProbedRepository | None:
    """A machine's report about a repository, with the registered repository that has the same engine id."""
    if found.engine_version not in (1, 2):
        return None
    engine_id = found.engine_id if found.engine_id and found.engine_id.isalnum() else None
    return ProbedRepository(
        engine_version=found.engine_version,
        engine_id=engine_id,
        encryption="repokey" if found.encryption == "repokey" else None,
        repository_id=repositories.by_engine_id(session, engine_id) if engine_id is not None else None,
    )


def machine_of(target: str, machine_id: int | None) -> Where:
    """Return the machine. Raise Unprocessable if target and id do not fit together."""
    if (target == "local") != (machine_id is None):
        raise _machine_unclear()
    return Where(
        connection_id=machine_id if target == "ssh" else None,
        agent_machine_id=machine_id if target == "agent" else None,
    )


def _machine_unclear() -> Unprocessable:
    return Unprocessable(
        "filesystem.machine_unclear",
        "Specify machine_id for an ssh machine or agent; omit it for the service's own machine.",
    )


def absolute(path: str | None, path_b64: str | None) -> bytes:
    """Given a path in one of its two forms, return its bytes; `/` if neither is given.

    Raise Unprocessable unless it is absolute.
    """
    if path is not None and path_b64 is not None:
        raise Unprocessable("filesystem.bad_path", "Specify either path or path_b64.")
    try:
        found = paths.from_json((path or "/") if path_b64 is None else {"path_b64": path_b64})
    except ValueError as error:
        raise Unprocessable("filesystem.bad_path", "The path_b64 is not the base64 form of a path.") from error
    if not found.startswith(b"/"):
        raise Unprocessable("filesystem.bad_path", "The path must be absolute.")
    return posixpath.normpath(b"/" + found.lstrip(b"/"))


def _entry(folder: bytes, name: bytes, found: FoundEntry) -> FolderEntry:
    return FolderEntry(
        name=paths.readable(name),
        **_both_forms(posixpath.join(folder, name)),
        type=found.type[:1] or "?",
        is_folder=found.is_folder,
        size=found.size,
        readable=found.readable,
        mount=found.mount,
    )


def _both_forms(path: bytes) -> dict[str, str | None]:
    return {"path": paths.readable(path), "path_b64": paths.exact(path)}


def _after(cursor: str | None) -> bytes:
    if cursor is None:
        return b""
    try:
        return bytes.fromhex(str(cursors.decode(cursor, str)[0]))
    except ValueError as error:
        raise cursors.bad_cursor() from error
