"""The restore points that existed on past days."""

import random
from datetime import UTC, date, datetime, time, timedelta

from holdfast.archives.retention import past_restore_points
from holdfast.archives.retention.past_restore_points import Point
from holdfast.kit import clock
from holdfast.operations.status import Status
from holdfast.repositories import archive_records, gone_archives
from holdfast.storage.session import Database
from tests.unit.archives.records import NOON, a_repository, an_archive, an_operation, day

FIRST, LAST = date(2026, 3, 1), date(2026, 3, 20)


def a_point(start: datetime, gone_at: datetime | None = None) -> Point:
    return Point(str(random.random()), None, "name", "series", start, gone_at)


def test_each_day_counts_the_points_that_existed_at_its_end() -> None:
    generator = random.Random(1)
    known = [
        a_point(day(made := generator.uniform(-10, 30)), day(made + generator.uniform(0, 12)) if number % 3 else None)
        for number in range(300)
    ]

    for counted, number in past_restore_points.counts(known, FIRST, LAST):
        end = datetime.combine(counted + timedelta(days=1), time(), UTC)
        there = [one for one in known if one.start < end and (one.gone_at is None or one.gone_at >= end)]
        assert number == len(there), counted
    shown = past_restore_points.shown(known, FIRST, LAST)
    days = [day for day, _ in past_restore_points.counts(known, FIRST, LAST)]
    assert shown == [one for one in known if any(past_restore_points.counts([one], each, each)[0][1] for each in days)]


def test_times_at_the_ends_of_the_calendar_do_no_harm() -> None:
    known = [a_point(datetime.max.replace(tzinfo=UTC)), a_point(datetime.min.replace(tzinfo=UTC))]

    assert [number for _, number in past_restore_points.counts(known, FIRST, FIRST)] == [1]
    assert past_restore_points.shown(known, FIRST, LAST) == known[1:]


def test_a_removed_archive_leaves_a_record_however_it_was_removed(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session)
        pruned = an_archive(session, repository, "pruned", NOON, deduplicated_size=7, backup_operation_id=1)
        outside = an_archive(session, repository, "outside", day(1), deduplicated_size=3)
        an_archive(session, repository, "there", day(2))
        archive_records.forget(session, repository.id, [pruned.engine_id, "f" * 64])
        archive_records.remove(session, [outside])
        archive_records.remove(session, [])
        session.flush()

        gone = gone_archives.since(session, repository.id, NOON, 10)
        found = {one.name: one for one in past_restore_points.points(session, repository, NOON)}

    assert {one.name: (one.start, one.new_bytes) for one in gone} == {
        "pruned": (NOON, 7),
        "outside": (day(1), None),
    }
    assert [found[name].gone_at is None for name in ("pruned", "outside", "there")] == [False, False, True]
    assert [found[name].archive_id is None for name in ("pruned", "outside", "there")] == [True, True, False]


def test_an_archive_that_returns_is_present_and_can_be_removed_again(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session)
        first = an_archive(session, repository, "undeleted", NOON)
        archive_records.forget(session, repository.id, [first.engine_id])
        session.flush()
        session.expunge_all()
        again = an_archive(session, repository, "undeleted", NOON)
        (point,) = past_restore_points.points(session, repository, NOON)
        assert (point.archive_id, point.gone_at) == (again.id, None)

        archive_records.forget(session, repository.id, [again.engine_id])

        (point,) = past_restore_points.points(session, repository, NOON)
        assert point.archive_id is None


def test_archives_pruned_before_the_record_existed_are_read_from_prune_results(database: Database) -> None:
    with database.writing() as session:
        repository, other = a_repository(session), a_repository(session)
        listed = [
            {"archive": "home-2026-03-01", "id": "a" * 64, "time": NOON.isoformat()},
            {"archive": "no time", "id": "b" * 64, "time": "yesterday"},
            {"archive": "no id", "id": None, "time": NOON.isoformat()},
            "nonsense",
        ]
        for of, result in ((repository, {"prune": listed}), (repository, {"prune": None}), (other, {"prune": listed})):
            an_operation(session, of, kind="prune", status=Status.COMPLETED, completed_at=day(5), result=result)
        an_operation(
            session, repository, kind="prune", status=Status.FAILED, completed_at=day(5), result={"prune": listed}
        )

        (point,) = past_restore_points.points(session, repository, NOON)

    assert (point.name, point.series, point.start, point.gone_at) == ("home-2026-03-01", "home", NOON, day(5))


def test_archives_removed_before_the_first_day_are_not_read(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session)
        gone = an_archive(session, repository, "gone", NOON)
        lost = an_archive(session, repository, "lost", NOON)
        archive_records.mark_lost(session, repository.id, [lost.id])
        archive_records.forget(session, repository.id, [gone.engine_id])
        session.flush()
        session.expire_all()

        names = [one.name for one in past_restore_points.points(session, repository, NOON)]
        assert sorted(names) == ["gone", "lost"]
        assert past_restore_points.points(session, repository, clock.now() + timedelta(days=1)) == []
