"""The names of all repositories: they speed up a search and never change its results."""

import math
import random
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from holdfast.access.caller import Caller
from holdfast.access.models import RepositoryRight
from holdfast.access.roles import Role
from holdfast.access.users import NewUser, create
from holdfast.archives import fleet_names
from holdfast.archives.archive_index import ArchiveIndex
from holdfast.archives.archive_index import build as build_index
from holdfast.archives.fleet_names_updater import ArchiveCounts, KnownRepositories, RepositoryColumns
from holdfast.archives.fleet_search import FleetQuery, FleetSearch
from holdfast.archives.history_stage import forget_index, trust_only
from holdfast.history.errors import IndexUnavailable
from holdfast.history.index import HistoryIndex
from holdfast.repositories import archive_records
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import ServicePlaces
from holdfast.settings import Settings
from holdfast.storage.session import Database
from tests.support.stores import KINDS, a_store
from tests.unit.archives.records import NOON, a_repository, an_archive
from tests.unit.history.model import a_file
from tests.unit.history.sources import listing_of

WORDS = ["alpha", "Beta", "gämma", "delta", "Straße", "photo", "x", "ab", "b\udcffd"]
ADMIN = Caller(1, "admin", Role.ADMIN, None, 1, None, False, None)


class Service:
    """Repositories with indexes, as in the service; no engine is run."""

    def __init__(self, folder: Path, database: Database, url: str | None) -> None:
        self.settings = Settings(data_dir=folder, database_url=url)
        self.database = database
        self.index: ArchiveIndex = build_index(self.settings, None)  # type: ignore[arg-type]
        self.added: dict[int, list[bytes]] = {}
        self.asked: list[str] = []
        reading = self.index.indexes.reading

        def noted(repository_uuid: str) -> HistoryIndex | None:
            self.asked.append(repository_uuid)
            return reading(repository_uuid)

        self.index.indexes.reading = noted  # type: ignore[method-assign]

    def add(self, number: int, paths: list[bytes]) -> None:
        with self.database.writing() as session:
            a_repository(session, id=number, uuid=f"{number:032x}", name=f"repository {number}", index_mode="full")
        self.added[number] = paths
        self.archive(number, f"first of {number}", paths)

    def archive(self, number: int, engine_id: str, paths: list[bytes]) -> None:
        with self.database.writing() as session:
            repository = session.get_one(Repository, number)
            known = len(archive_records.all_of(session, number))
            values = {"id": 100 * number + known, "engine_id": engine_id, "history_state": "pending"}
            an_archive(session, repository, engine_id, NOON, **values)
            index = self.index.indexes.writing(repository.uuid)
            index.ingest_listing(engine_id, listing_of(a_file(path) for path in paths))
            trust_only(session, repository, index)

    def feed(self) -> None:
        self.index.names_updater.catch_up(self.database)

    def fleet(self, caller: Caller = ADMIN) -> FleetSearch:
        """The caller's repositories, without a time limit: where a page ends depends only on what was found."""
        fleet = FleetSearch.of(self.database, self.index, ServicePlaces(self.settings), caller, [])
        return replace(fleet, seconds=math.inf)

    def search(self, query: str, caller: Caller = ADMIN, limit: int = 7) -> list[Any]:
        found, cursor = [], None
        while True:
            page = self.fleet(caller).search(query, FleetQuery(), limit, cursor)
            found.append(page.model_dump(exclude={"next_cursor"}) | {"ends": page.next_cursor is None})
            cursor = page.next_cursor
            if cursor is None:
                return found

    def paths(self, query: str) -> list[tuple[int, str]]:
        return [(hit["repository_id"], hit["path"]) for page in self.search(query) for hit in page["results"]]

    def history(self, path: bytes, caller: Caller = ADMIN) -> Any:
        return self.fleet(caller).history(path, 500, None).model_dump()


NewService = Callable[[str], Service]


@pytest.fixture(params=KINDS)
def new_service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewService]:
    opened: list[tuple[Any, Service]] = []

    def make(name: str) -> Service:
        folder = tmp_path / name
        folder.mkdir()
        store = a_store(request.param, folder)
        database = store.__enter__()
        url = None if database.is_sqlite else database.engine.url.render_as_string(hide_password=False)
        opened.append((store, Service(folder, database, url)))
        return opened[-1][1]

    yield make
    for store, service in opened:
        service.index.indexes.close()
        store.__exit__(None, None, None)


@pytest.fixture
def service(new_service: NewService) -> Service:
    return new_service("service")


def some_paths(generator: random.Random) -> list[bytes]:
    def name() -> str:
        return generator.choice(WORDS) + generator.choice(["", "-", "."]) + generator.choice(WORDS)

    paths = {"/".join(name() for _ in range(generator.randint(1, 3))) for _ in range(generator.randint(0, 12))}
    return sorted(path.encode("utf-8", "surrogateescape") for path in paths)


def queries(generator: random.Random) -> Iterator[str]:
    for _ in range(12):
        text = "/".join(
            generator.choice(WORDS[:8]) + generator.choice(["", "-", "."]) for _ in range(generator.randint(1, 2))
        )
        yield generator.choice([text, text.upper(), text[1:], text[:-1], f"/{text}", f"{text}/", text[:2]])


def test_a_repository_without_the_name_is_not_opened(service: Service) -> None:
    service.add(1, [b"etc/passwd"])
    service.add(2, [b"home/letter.txt"])
    service.feed()
    service.asked.clear()

    assert service.paths("LETTER") == [(2, "home/letter.txt")]
    assert set(service.asked) == {f"{2:032x}"}
    service.asked.clear()
    assert [each["repository_id"] for each in service.history(b"etc/passwd")["repositories"]] == [1]
    assert set(service.asked) == {f"{1:032x}"}


def test_newly_indexed_paths_are_found_before_their_names_are_read(service: Service) -> None:
    service.add(1, [b"old"])
    service.feed()
    service.archive(1, "second", [b"newcomer"])
    service.add(2, [b"newcomer"])

    assert service.paths("newcomer") == [(1, "newcomer"), (2, "newcomer")]


def test_an_unavailable_index_is_reported_as_incomplete_coverage(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.add(1, [b"letter"])

    def busy(_uuid: str) -> None:
        raise IndexUnavailable("busy")

    monkeypatch.setattr(service.index.indexes, "reading", busy)

    (page,) = service.search("letter")
    for coverage in (page["coverage"], service.history(b"letter")["coverage"]):
        assert [(one["repository_id"], one["reason"]) for one in coverage["incomplete"]] == [(1, "unavailable")]


def test_a_name_that_replaces_a_swept_one_is_found(service: Service) -> None:
    """Names are read by id, starting after the last one read: an id must not be reused."""
    service.add(1, [b"keep"])
    service.archive(1, "second", [b"swept"])
    service.feed()
    with service.database.writing() as session:
        index = service.index.indexes.writing(f"{1:032x}")
        index.remove(["second"])
        index.sweep()
        trust_only(session, session.get_one(Repository, 1), index)
    service.archive(1, "third", [b"newcomer"])
    service.feed()

    assert service.paths("newcomer") == [(1, "newcomer")]


def test_a_rebuilt_index_is_read_again_and_its_old_names_are_removed(service: Service) -> None:
    service.add(1, [b"hidden", b"both"])
    service.add(2, [b"both"])
    service.feed()
    with service.database.writing() as session:
        service.index.indexes.forget(f"{1:032x}")
        forget_index(session, 1)
    assert service.paths("both") == [(2, "both")]
    service.archive(1, "first of 1 again", [b"other"])
    service.feed()

    assert service.paths("other") == [(1, "other")]
    assert service.paths("both") == [(2, "both")]
    assert names_in(service) == {"both", "other"}


def test_names_of_a_repository_that_is_gone_are_removed(service: Service) -> None:
    service.add(1, [b"secret"])
    service.add(2, [b"public"])
    service.feed()
    with service.database.writing() as session:
        repository = session.get_one(Repository, 1)
        service.index.forget(session, repository)
        session.delete(repository)
    service.feed()

    assert names_in(service) == {"public"}
    assert service.paths("public") == [(2, "public")]


@pytest.mark.parametrize("damage", ["gone", "nonsense", "empty", "halfway"])
def test_a_missing_or_damaged_file_changes_no_results_and_is_recreated(service: Service, damage: str) -> None:
    service.add(1, [b"letter"])
    service.add(2, [b"other"])
    service.feed()
    file = service.index.names_updater.names.file
    whole = file.read_bytes()
    service.index.names_updater.names.destroy()
    if damage != "gone":
        file.write_bytes({"nonsense": b"no database" * 1000, "empty": b"", "halfway": whole[: len(whole) // 2]}[damage])

    assert service.paths("letter") == [(1, "letter")]
    service.feed()
    service.feed()
    service.asked.clear()
    assert service.paths("letter") == [(1, "letter")]
    assert set(service.asked) == {f"{1:032x}"}


def test_a_text_that_matches_too_many_names_is_searched_in_every_index(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_names, "MOST_NAMES", 3)
    for number in (1, 2, 3):
        service.add(number, [b"photo-%d-%d" % (number, count) for count in range(2)])
    service.feed()

    assert len(service.paths("photo")) == 6


def test_reading_names_resumes_where_it_was_stopped(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.archives.fleet_names_updater.NAMES_AT_ONCE", 2)
    service.add(1, [b"name %d" % number for number in range(9)])
    answers = iter([False, False, False])
    service.index.names_updater.catch_up(service.database, lambda: next(answers, True))
    (half,) = service.index.names_updater.names.fed()
    assert (half.mark, 0 < half.last_name < 9) == ("", True)
    assert len(service.paths("name")) == 9

    service.feed()

    (whole,) = service.index.names_updater.names.fed()
    assert (bool(whole.mark), whole.names) == (True, 9)


def test_only_repositories_whose_names_are_current_can_be_ruled_out() -> None:
    def numbers(uuid: str, generation: str | None, mark: str) -> dict[int, int]:
        repository = RepositoryColumns(7, uuid, "name", "local", None, None, "full", generation)
        fed = {"a": fleet_names.NamesOfRepository(3, "a", "generation", "mark", 1, 1)}
        return KnownRepositories([repository], {7: ArchiveCounts(1, 1, mark)}).numbers(fed)

    assert numbers("a", "generation", "mark") == {7: 3}
    assert numbers("a", "generation", "another") == {}
    assert numbers("a", "another", "mark") == {}
    assert numbers("a", None, "mark") == {}
    assert numbers("b", "generation", "mark") == {}


@pytest.mark.parametrize("seed", range(2))
def test_a_viewer_gets_the_same_results_as_if_hidden_repositories_did_not_exist(
    new_service: NewService, seed: int
) -> None:
    generator = random.Random(seed)
    whole, alone = new_service("whole"), new_service("alone")
    visible = {number for number in range(1, 7) if generator.random() < 0.5}
    stranger = a_viewer(whole, visible, range(1, 7), lambda number: whole.add(number, some_paths(generator)))
    for number in sorted(visible):
        alone.add(number, whole.added[number])
    if seed % 2:
        whole.feed()
    alone.feed()

    for query in queries(generator):
        assert whole.search(query, stranger) == alone.search(query), query
    for path in some_paths(generator) + some_paths(random.Random(seed)):
        assert whole.history(path, stranger) == alone.history(path)


@pytest.mark.parametrize("seed", range(2))
def test_results_with_names_equal_results_without_them(service: Service, seed: int) -> None:
    generator = random.Random(1000 + seed)
    for number in range(1, 7):
        service.add(number, some_paths(generator))
    wanted = list(queries(generator))
    before = [service.search(query) for query in wanted]
    service.feed()

    assert [service.search(query) for query in wanted] == before


def names_in(service: Service) -> set[str]:
    connection = sqlite3.connect(service.index.names_updater.names.file)
    try:
        return {row[0] for row in connection.execute("SELECT text FROM name")}
    finally:
        connection.close()


def a_viewer(service: Service, visible: set[int], all_of_them: range, add: Callable[[int], None]) -> Caller:
    for number in all_of_them:
        add(number)
    with service.database.writing() as session:
        user = create(session, None, NewUser("stranger", "x", Role.VIEWER, must_change_password=False))
        rights = [{"user_id": user.id, "repository_id": number, "role": Role.VIEWER} for number in sorted(visible)]
        if rights:
            session.execute(insert(RepositoryRight), rights)
        return Caller(user.id, "stranger", Role.VIEWER, None, 1, None, False, None)
