"""Mirrors by interval: a sync is queued once when it is due."""

from datetime import timedelta
from pathlib import Path

import pytest
import time_machine

from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.access.vault import VAULT, Vault
from holdfast.api.dependencies import DATABASE, SETTINGS
from holdfast.api.parts import Parts
from holdfast.kit import clock
from holdfast.mirror import feature
from holdfast.mirror.mirrors import MIRRORS, Mirrors
from holdfast.operations import pages, transitions
from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from holdfast.repositories.location import OPENER, Opener
from holdfast.settings import Settings
from holdfast.storage.session import Database
from tests.unit.mirror.rows import add_mirror

ADMIN = Caller(1, "admin", Role.ADMIN, None, None, None, must_change_password=False, address=None)


@pytest.fixture
def mirrors(database: Database, tmp_path: Path) -> Mirrors:
    settings = Settings(data_dir=tmp_path, database_url=None, role="all")
    vault = Vault(settings)
    opener = Opener(settings, None, vault, None, None, None)  # type: ignore[arg-type] # no engine is used
    given = (SETTINGS.given(settings), DATABASE.given(database), VAULT.given(vault), OPENER.given(opener))
    return Parts([*given, *feature.FEATURE.provides])[MIRRORS]


def syncs(database: Database, repository_id: int) -> list[Operation]:
    with database.reading() as session:
        return pages.latest_of_kind(session, repository_id, ("sync",), 100)


def after(minutes: float) -> time_machine.travel:
    return time_machine.travel(clock.now() + timedelta(minutes=minutes))


def test_a_mirror_is_due_when_its_interval_has_passed_and_not_again_while_its_sync_waits(
    database: Database, mirrors: Mirrors
) -> None:
    repository = add_mirror(database)

    with after(29):
        assert mirrors.enqueue_due(database) == 0
    with after(31):
        assert mirrors.enqueue_due(database) == 1
        assert mirrors.enqueue_due(database) == 0

    assert [(sync.trigger, sync.status) for sync in syncs(database, repository)] == [("schedule", Status.PENDING)]


def test_the_interval_counts_from_the_last_sync_even_if_it_was_cancelled(database: Database, mirrors: Mirrors) -> None:
    repository = add_mirror(database)
    with after(31):
        mirrors.enqueue_due(database)
        with database.writing() as session:
            transitions.request_cancel(session, syncs(database, repository)[0].id)

    with after(50):
        assert mirrors.enqueue_due(database) == 0
    with after(62):
        assert mirrors.enqueue_due(database) == 1


def test_the_interval_also_counts_from_a_sync_that_a_person_started(database: Database, mirrors: Mirrors) -> None:
    repository = add_mirror(database)
    with after(20), database.writing() as session:
        started = mirrors.start_sync(session, ADMIN, repository, override_sanity=False)
        transitions.request_cancel(session, started.id)
    assert [(sync.trigger, sync.status) for sync in syncs(database, repository)] == [("manual", Status.CANCELLED)]

    with after(49):
        assert mirrors.enqueue_due(database) == 0
    with after(51):
        assert mirrors.enqueue_due(database) == 1


@pytest.mark.parametrize("mode", ["manual", "after_backup"])
def test_other_modes_are_never_due(database: Database, mirrors: Mirrors, mode: str) -> None:
    add_mirror(database, mode, None)

    with after(100_000):
        assert mirrors.enqueue_due(database) == 0
