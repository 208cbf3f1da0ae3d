"""Short helpers that add rows about mirrors to the store."""

import uuid

from holdfast.kit import clock
from holdfast.mirror.models import RcloneRemote, RepositoryMirror
from holdfast.operations.status import Status
from holdfast.repositories import store as repositories
from holdfast.storage.session import Database
from tests.unit.archives.records import a_repository, an_operation


def add_mirror(database: Database, mode: str = "interval", minutes: int | None = 30) -> int:
    """Add a repository with a mirror; return the repository's id."""
    now = clock.now()
    with database.writing() as session:
        repository = a_repository(session)
        name = uuid.uuid4().hex
        remote = RcloneRemote(uuid=name, name=name, provider="local", options={}, created_at=now, updated_at=now)
        session.add(remote)
        session.flush()
        session.add(
            RepositoryMirror(
                repository_id=repository.id,
                remote_id=remote.id,
                path="/srv/mirror",
                mode=mode,
                interval_minutes=minutes,
                shrink_threshold_percent=50,
                verify=True,
                created_at=now,
                updated_at=now,
            )
        )
        return repository.id


def running_sync(database: Database, repository_id: int) -> int:
    with database.writing() as session:
        repository = repositories.get(session, repository_id)
        assert repository is not None
        return an_operation(session, repository, "sync", Status.RUNNING).id
