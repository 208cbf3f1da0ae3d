"""The id of a repository is stored once: only an admin can replace it."""

from pathlib import Path

from holdfast.repositories import store
from tests.support.stores import a_store
from tests.unit.archives.records import a_repository

OWN, STRANGER = "b" * 64, "c" * 64


def test_a_report_never_replaces_a_stored_id(tmp_path: Path) -> None:
    with a_store("sqlite", tmp_path) as database:
        with database.writing() as session:
            place = a_repository(session).id
        for reported in (None, OWN, STRANGER):
            with database.writing() as session:
                store.learn_engine_id(session, place, reported)

        with database.reading() as session:
            known = store.get(session, place)
            assert known is not None
            assert known.engine_id == OWN
            assert store.is_another(session, place, STRANGER)
