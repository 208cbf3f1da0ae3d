"""The status cells of a repository, and how fresh its archive list is."""

from datetime import timedelta
from pathlib import Path

from sqlalchemy.orm import Session

from holdfast.archives.file_indexes import FileIndexes
from holdfast.archives.index_state import IndexState
from holdfast.archives.schemas import StatusCell
from holdfast.archives.stages import Stages
from holdfast.archives.status_view import status
from holdfast.kit import clock
from holdfast.operations.status import Status
from holdfast.repositories.models import Repository
from holdfast.settings import Settings
from holdfast.storage.session import Database
from tests.unit.archives.records import a_repository, an_operation


def cell(session: Session, repository: Repository, name: str, *, overdue: bool = True) -> StatusCell:
    (found,) = [one for one in status(session, repository, overdue=overdue).cells if one.cell == name]
    return found


def test_a_failed_operation_is_shown_with_the_age_of_the_last_success(database: Database) -> None:
    with database.writing() as session:
        long_ago = clock.now() - timedelta(days=3)
        repository = a_repository(session, last_check=long_ago)
        an_operation(session, repository, "check", Status.COMPLETED, completed_at=long_ago)
        failed = an_operation(session, repository, "check", Status.FAILED)
        found = cell(session, repository, "check")

        assert (found.status, found.source) == ("failed", f"operation:{failed.id}")
        assert found.age_seconds is not None
        assert found.age_seconds >= 3 * 86400


def test_a_skipped_operation_does_not_count(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session)
        an_operation(session, repository, "prune", Status.SKIPPED)

        assert cell(session, repository, "prune").status == "never"


def test_a_running_operation_is_found_behind_many_waiting_ones(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session)
        done = an_operation(session, repository, "archives", Status.COMPLETED)
        an_operation(session, repository, "history", Status.RUNNING)
        for _ in range(20):
            an_operation(session, repository, "archives", Status.PENDING)
        found = cell(session, repository, "index")

        assert found.running is True
        assert found.source == f"operation:{done.id}"
        assert cell(session, repository, "backup").running is False


def test_the_repositorys_own_dates_count_if_the_operation_was_deleted(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session, last_compact=clock.now() - timedelta(days=1))
        found = cell(session, repository, "compact")

        assert (found.status, found.source) == ("completed", "repository")


def test_overdue_is_counted_from_the_last_success_or_from_when_the_repository_was_added(database: Database) -> None:
    with database.writing() as session:
        now = clock.now()
        known_long = a_repository(session, created_at=now - timedelta(days=40), last_backup=now - timedelta(days=8))
        fresh = a_repository(session, last_backup=now - timedelta(days=6))

        assert cell(session, known_long, "backup").overdue is True
        assert cell(session, known_long, "check").overdue is True
        assert cell(session, known_long, "restore_check").overdue is False
        assert cell(session, fresh, "backup").overdue is False
        assert cell(session, fresh, "check").overdue is False
        assert cell(session, known_long, "backup", overdue=False).overdue is None


def test_an_index_that_is_off_is_never_overdue(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session, index_mode="off", created_at=clock.now() - timedelta(days=400))
        found = cell(session, repository, "index")

        assert (found.overdue, found.threshold_days) == (None, None)


def test_an_archive_newer_than_the_last_backup_operation_determines_the_status(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session, last_backup=clock.now() + timedelta(minutes=1))
        an_operation(session, repository, "backup", Status.FAILED)
        found = cell(session, repository, "backup")

        assert (found.status, found.source) == ("completed", "repository")


def test_a_success_in_the_future_is_unknown(database: Database) -> None:
    with database.writing() as session:
        now = clock.now()
        repository = a_repository(session, created_at=now - timedelta(days=40), last_backup=now + timedelta(hours=1))
        found = cell(session, repository, "backup")

        assert (found.status, found.age_seconds, found.overdue) == ("never", None, True)


# --- how fresh the list is ------------------------------------------------------------------------------------------


def index_state(folder: Path) -> IndexState:
    return IndexState(Settings(reconcile_minutes=10), Stages({}), FileIndexes(folder))


def test_a_list_is_stale_after_three_intervals(database: Database, tmp_path: Path) -> None:
    state = index_state(tmp_path)
    with database.writing() as session:
        fresh = a_repository(session, last_synced=clock.now() - timedelta(minutes=29))
        stale = a_repository(session, last_synced=clock.now() - timedelta(minutes=31))
        never = a_repository(session)

        assert [state.sync_state(session, one) for one in (fresh, stale, never)] == ["fresh", "stale", "never"]


def test_a_list_that_is_being_read_is_syncing(database: Database, tmp_path: Path) -> None:
    state = index_state(tmp_path)
    with database.writing() as session:
        for status_now in (Status.PENDING, Status.RUNNING):
            repository = a_repository(session, last_synced=clock.now())
            an_operation(session, repository, "archives", status_now)
            assert state.sync_state(session, repository) == "syncing"
        repository = a_repository(session, last_synced=clock.now())
        an_operation(session, repository, "history", Status.RUNNING)
        assert state.sync_state(session, repository) == "fresh"
