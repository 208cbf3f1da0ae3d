"""A store with as many schedules as repositories, all due at the same time."""

from typing import Any
from uuid import uuid4

from sqlalchemy import insert

from holdfast.repositories.models import Repository
from holdfast.schedules.models import Schedule
from holdfast.storage.session import Database
from tests.unit.schedules.running.world import NIGHTLY, World


def fill(database: Database, number: int, of_repositories: dict[str, Any] | None = None) -> None:
    """Create repositories and schedules, numbered from 1 on; schedule n has repository n as its target."""
    world = World(database)
    world.repository(**(of_repositories or {}))
    schedule = world.schedule(1, **NIGHTLY)
    with database.reading() as session:
        like_repository = values_of(session.get_one(Repository, 1))
        like_schedule = values_of(session.get_one(Schedule, schedule))
    repositories = []
    for index in range(number - 1):
        name = uuid4().hex
        own = {"uuid": name, "name": name, "path": f"/srv/{name}", "identity": f"/srv/{name}"}
        repositories.append({**like_repository, **own, "id": index + 2})
    schedules = [
        {**like_schedule, "id": index + 2, "uuid": uuid4().hex, "name": uuid4().hex}
        | {"targets": {"repository_ids": [index + 2]}}
        for index in range(number - 1)
    ]
    for first in range(0, number, 1000):
        with database.writing() as session:
            if some := repositories[first : first + 1000]:
                session.execute(insert(Repository), some)
                session.execute(insert(Schedule), schedules[first : first + 1000])


def values_of(row: Repository | Schedule) -> dict[str, object]:
    return {column.key: getattr(row, column.key) for column in row.__table__.columns}
