"""Synchronising the stored archive list with a complete listing."""

import threading
from datetime import timedelta
from pathlib import Path

import pytest
import time_machine
from sqlalchemy.orm import Session

from holdfast.archives.archive_sync import sync_archives
from holdfast.kit import clock
from holdfast.operations.status import Status
from holdfast.repositories import archive_records, store
from holdfast.storage.session import Database
from tests.support.stores import a_store
from tests.unit.archives.records import a_repository, an_archive, an_operation, day, listed


def names(session: Session, repository: int) -> list[str]:
    return [archive.name for archive in archive_records.all_of(session, repository)]


def test_the_stored_list_becomes_that_of_the_engine(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session)
        an_archive(session, repository, "gone", day(0))
        an_archive(session, repository, "stays", day(1))
        synced = sync_archives(session, repository.id, [listed("stays", day(1)), listed("new", day(2))], clock.now())

        assert (synced.added, synced.removed, synced.total) == (1, 1, 2)
        assert names(session, repository.id) == ["stays", "new"]


def test_syncing_the_same_listing_twice_changes_nothing(database: Database) -> None:
    listing = [listed("one", day(0)), listed("two", day(1))]
    with database.writing() as session:
        repository = a_repository(session)
        sync_archives(session, repository.id, listing, clock.now())
    with database.writing() as session:
        before = [(one.id, one.name, one.first_seen_at) for one in archive_records.all_of(session, repository.id)]
        synced = sync_archives(session, repository.id, listing, clock.now())

        assert (synced.added, synced.removed, synced.total) == (0, 0, 2)
        after = [(one.id, one.name, one.first_seen_at) for one in archive_records.all_of(session, repository.id)]
        assert after == before


def test_an_archive_recorded_since_the_listing_began_is_kept(database: Database) -> None:
    began = clock.now()
    with database.writing() as session:
        repository = a_repository(session)
        an_archive(session, repository, "just made", day(0), first_seen_at=began + timedelta(seconds=1))
        sync_archives(session, repository.id, [], began)

        assert names(session, repository.id) == ["just made"]


def test_a_renamed_archive_keeps_the_operation_that_created_it(database: Database) -> None:
    """The engine gives a renamed archive another id; its comment still carries the key of the operation."""
    with database.writing() as session:
        repository = a_repository(session)
        made = an_operation(session, repository, "backup", Status.COMPLETED)
        an_archive(session, repository, "old", day(0), backup_operation_id=made.id)
        comment = f"before the move holdfast:{made.uuid}"
        sync_archives(session, repository.id, [listed("renamed", day(0), comment=comment)], clock.now())
        (found,) = archive_records.all_of(session, repository.id)

        assert (found.name, found.backup_operation_id, found.comment) == ("renamed", made.id, comment)


def test_a_comment_with_an_unknown_key_names_no_operation(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session)
        comment = "holdfast: holdfast:0123 holdfast:%00"
        sync_archives(session, repository.id, [listed("foreign", day(0), comment=comment)], clock.now())
        (found,) = archive_records.all_of(session, repository.id)

        assert found.backup_operation_id is None


def test_an_archive_with_two_keys_in_its_comment_belongs_to_the_backup_of_the_last_one(
    database: Database,
) -> None:
    with database.writing() as session:
        repository = a_repository(session)
        first, second = (an_operation(session, repository, "backup", Status.COMPLETED) for _ in range(2))
        comment = f"as holdfast:{first.uuid} holdfast:{second.uuid}"
        sync_archives(session, repository.id, [listed("copied", day(0), comment=comment)], clock.now())
        [found] = archive_records.all_of(session, repository.id)
        assert found.backup_operation_id == second.id


def test_a_renamed_archive_moves_to_the_series_of_its_new_name(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session)
        archive = an_archive(session, repository, "web-2026-03-01", day(0), series="web")
        sync_archives(session, repository.id, [listed("db-2026-03-01", day(0), id=archive.engine_id)], clock.now())
        (found,) = archive_records.all_of(session, repository.id)

        assert (found.id, found.name, found.series) == (archive.id, "db-2026-03-01", "db")


def test_the_repositorys_template_determines_the_series(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session, archive_name_template="{repository}-{now:%A}")
        sync_archives(session, repository.id, [listed("nas-Sunday", day(0)), listed("nas-Monday", day(1))], clock.now())

        assert {one.series for one in archive_records.all_of(session, repository.id)} == {"nas"}


def test_the_newest_archive_sets_the_last_backup_but_never_to_an_earlier_time(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session)
        later = a_repository(session, last_backup=day(9))
        for one in (repository, later):
            sync_archives(session, one.id, [listed("old", day(1)), listed("new", day(2))], clock.now())
    with database.reading() as session:
        found, kept = store.get(session, repository.id), store.get(session, later.id)

        assert found is not None
        assert found.last_backup == day(2) + timedelta(seconds=5)
        assert kept is not None
        assert kept.last_backup == day(9)


def test_an_archive_from_the_future_proves_a_backup_when_it_was_first_seen(database: Database) -> None:
    ahead = listed("ahead", day(400))
    with database.writing() as session, time_machine.travel(day(0), tick=False):
        repository = a_repository(session).id
        sync_archives(session, repository, [listed("good", day(-1)), ahead], clock.now())
    with database.writing() as session, time_machine.travel(day(9), tick=False):
        sync_archives(session, repository, [ahead], clock.now())
        found = store.get(session, repository)

        assert found is not None
        assert found.last_backup == day(0)


def test_evidence_from_the_future_is_dropped(database: Database) -> None:
    with database.writing() as session, time_machine.travel(day(1), tick=False):
        repository = a_repository(session, last_backup=day(400), last_check=day(400), last_prune=day(0))
        an_archive(session, repository, "recorded while the clock was ahead", day(400), first_seen_at=day(400))
        an_archive(session, repository, "good", day(0), first_seen_at=day(400))
        sync_archives(
            session,
            repository.id,
            [listed("recorded while the clock was ahead", day(400)), listed("good", day(0))],
            clock.now(),
        )
        session.refresh(repository)

        assert (repository.last_backup, repository.last_check, repository.last_prune) == (day(0), None, day(0))
        assert repository.last_synced == day(1)


def test_an_empty_list_sets_a_count_of_zero_and_no_last_backup(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session)
        sync_archives(session, repository.id, [], clock.now())
    with database.reading() as session:
        found = store.get(session, repository.id)

        assert found is not None
        assert (found.archive_count, found.last_backup) == (0, None)
        assert found.last_synced is not None


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_concurrent_syncs_add_each_archive_once(kind: str, tmp_path: Path) -> None:
    listing = [listed(f"a{number}", day(number)) for number in range(50)]
    with a_store(kind, tmp_path) as database:
        with database.writing() as session:
            repository = a_repository(session).id
        together = threading.Barrier(4)
        failures: list[BaseException] = []

        def sync() -> None:
            try:
                together.wait()
                with database.writing() as session:
                    sync_archives(session, repository, listing, clock.now())
            except BaseException as error:  # noqa: BLE001 -- reported to the test's own thread
                failures.append(error)

        threads = [threading.Thread(target=sync) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with database.reading() as session:
            assert failures == []
            assert len(names(session, repository)) == 50
