"""Only one of a repository's running syncs writes to the mirror, and its result is recorded for that mirror alone."""

from holdfast.mirror import store
from holdfast.operations import transitions
from holdfast.operations.status import Status
from holdfast.storage.session import Database
from tests.unit.mirror.rows import add_mirror, running_sync


def has_turn(database: Database, repository: int, sync: int) -> bool:
    with database.writing() as session:
        return store.take_turn(session, repository, sync)


def end(database: Database, sync: int, status: Status) -> None:
    with database.writing() as session:
        assert transitions.move(session, sync, Status.RUNNING, status)


def test_one_of_two_running_syncs_has_the_turn_until_it_ends(database: Database) -> None:
    repository = add_mirror(database)
    first, second = running_sync(database, repository), running_sync(database, repository)

    assert has_turn(database, repository, first)
    assert not has_turn(database, repository, second)
    assert has_turn(database, repository, first), "asked again after a restart"
    end(database, first, Status.FAILED)
    assert has_turn(database, repository, second)


def test_a_requeued_sync_loses_its_turn(database: Database) -> None:
    repository = add_mirror(database)
    first, second = running_sync(database, repository), running_sync(database, repository)
    assert has_turn(database, repository, first)

    end(database, first, Status.PENDING)
    assert has_turn(database, repository, second)
    with database.writing() as session:
        assert transitions.move(session, first, Status.PENDING, Status.RUNNING)

    assert not has_turn(database, repository, first), "although it is the older one"
    assert has_turn(database, repository, second), "asked again after a restart"


def test_the_older_of_two_running_syncs_goes_first_whichever_tries_first(database: Database) -> None:
    repository = add_mirror(database)
    first, second = running_sync(database, repository), running_sync(database, repository)

    assert not has_turn(database, repository, second)
    assert has_turn(database, repository, first)


def test_the_result_of_a_sync_is_not_recorded_for_a_mirror_that_moved_meanwhile(database: Database) -> None:
    repository = add_mirror(database)
    with database.reading() as session:
        before = store.require_mirror(session, repository)
    with database.writing() as session:
        store.require_mirror(session, repository).path = "/srv/elsewhere"

    with database.writing() as session:
        store.note_sync(session, before, {"bytes": 1}, verified_by="hashes")

    with database.reading() as session:
        assert store.require_mirror(session, repository).mirrored is None
