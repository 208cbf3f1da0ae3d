"""`holdfast admin verify-index`: works while the service is running, through the same lanes."""

from collections.abc import Callable, Sequence

from sqlalchemy import or_, select

from holdfast.access.vault import Vault
from holdfast.agents.called_engines import CalledEngines
from holdfast.archives.index_verification import Difference, verify_archive
from holdfast.archives.indexes import indexes_for
from holdfast.errors import NotFound
from holdfast.execution.engines import Engines
from holdfast.history.errors import HistoryError
from holdfast.history.index import HistoryIndex
from holdfast.kit.supervisor import Supervisor
from holdfast.machines.machines import Machines
from holdfast.mirror.engine2_remotes import Engine2Remotes
from holdfast.mirror.rclone import Rclone
from holdfast.mirror.remotes import Remotes
from holdfast.operations.kinds import Registry
from holdfast.repositories import archive_records
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.runner.inline import InlineCalls
from holdfast.runner.loop import Runner
from holdfast.settings import Settings
from holdfast.storage.session import Database


def verify(
    settings: Settings, database: Database, repository: str, archives: Sequence[str], tell: Callable[[str], None]
) -> int:
    """Compare archives of a repository with the engine and print the findings; return the number of differences."""
    found, wanted = _choose(database, repository, archives)
    indexes = indexes_for(settings)
    index = indexes.reading(found.uuid)
    if index is None:
        raise NotFound("archives.no_index", "The repository has no file history.")
    supervisor = Supervisor()
    runner = Runner(settings, database, Registry.of([]), supervisor, "admin")
    runner.start(executes=False)
    try:
        inline = InlineCalls(settings, database, runner.identity.id, supervisor)
        engines, vault = Engines(settings), Vault(settings)
        machines = Machines(settings, database, vault, engines)
        called = CalledEngines(database, settings.calls_dir)
        remotes = Engine2Remotes(database, Remotes(Rclone(settings), vault))
        opener = Opener(settings, engines, vault, machines, called, remotes)
        return _verify_itself(index, tell) + sum(
            _verify_one(inline, opener, found, archive, index, tell) for archive in wanted
        )
    finally:
        supervisor.stop()
        runner.stop()
        indexes.close()


def _verify_itself(index: HistoryIndex, tell: Callable[[str], None]) -> int:
    """Check that the index is sound as a store before its content is compared."""
    try:
        damage = index.damage()
    except HistoryError as error:
        damage = [str(error)]
    for found in damage:
        tell(f"the index itself: {found}")
    return len(damage)


def _verify_one(
    inline: InlineCalls,
    opener: Opener,
    repository: Repository,
    archive: Archive,
    index: HistoryIndex,
    tell: Callable[[str], None],
) -> int:
    differences = 0
    for found in verify_archive(inline, opener, repository, archive, index):
        if isinstance(found, Difference):
            differences += 1
            tell(f"{found.archive}: {found.path}: {found.problem}")
        else:
            note = found.problem or f"{found.files} files, {found.differences} differences"
            differences += 1 if found.problem else 0
            tell(f"{found.archive}: {note}")
    return differences


def _choose(database: Database, repository: str, archives: Sequence[str]) -> tuple[Repository, list[Archive]]:
    number = int(repository) if repository.isdigit() else 0
    with database.reading() as session:
        statement = select(Repository).where(
            or_(Repository.name == repository, Repository.path == repository, Repository.id == number)
        )
        found = session.scalars(statement).first()
        if found is None:
            raise NotFound("repository.not_found", f"No repository is named {repository}.")
        known = [archive for archive in archive_records.all_of(session, found.id) if archive.lost_at is None]
    wanted = [archive for archive in known if not archives or archive.name in archives]
    if archives and len(wanted) < len(set(archives)):
        raise NotFound("archives.not_found", "Some of the given archives are not in the index.")
    return found, wanted
