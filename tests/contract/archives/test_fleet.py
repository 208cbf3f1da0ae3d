"""Files across all repositories: those a caller may not see are not searched, counted or named."""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import update

from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.archives.archive_index import build as build_index
from holdfast.archives.fleet_search import FleetQuery, FleetSearch
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import ServicePlaces
from holdfast.settings import Settings
from holdfast.storage.session import Database
from tests.contract.archives.world import World, get, wait_for_index
from tests.contract.fields import error_of, is_timestamp
from tests.support.service import Client

OF_REPOSITORY = {"repository_id", "repository_name", "execution_target", "agent_machine_id", "ssh_connection_id"}
HIT = OF_REPOSITORY | {
    *("path", "path_b64", "size", "mtime", "first_archive_id", "first_seen_at", "last_archive_id", "last_seen_at"),
    *("archive_count", "present_in_latest"),
}

REMOTE = 777_001
"""The id of an agent that does not exist."""

seconds: dict[str, dict[str, Any]] = {}


@pytest.fixture
def second(world: World) -> dict[str, Any]:
    """The same archives in a second repository of the same service."""
    store = str(world.running.process.database_url)
    if store not in seconds:
        place = world.running.folder / world.running.new_name("second")
        shutil.copytree(world.story.repository, place)
        config = place / "config"
        text = config.read_text()
        engine_id = next(line.split("=")[1].strip() for line in text.splitlines() if line.startswith("id ="))
        config.write_text(text.replace(engine_id, engine_id[::-1]))
        body = {"name": place.name, "path": str(place), "encryption": "none", "source_paths": [str(world.story.docs)]}
        answer = world.admin.post("/api/repositories/import", json=body)
        assert answer.status_code == 201, answer.text
        wait_for_index(world.admin, answer.json())
        seconds[store] = answer.json()
    return seconds[store]


def both(world: World, second: dict[str, Any]) -> dict[str, Any]:
    return {"repository_id[]": [world.repository["id"], second["id"]]}


def pages(client: Client, **params: Any) -> list[dict[str, Any]]:
    found, cursor = [], {}
    while True:
        page = get(client, "/api/search", **params, **cursor)
        found.append(page)
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"]}


def test_a_name_is_found_in_every_repository(world: World, second: dict[str, Any]) -> None:
    found = [hit for page in pages(world.admin, q="keep.md", **both(world, second)) for hit in page["results"]]

    assert [hit["repository_id"] for hit in found] == [world.repository["id"], second["id"]]
    assert {hit["path"] for hit in found} == {world.at("keep.md")}
    hit = found[0]
    assert set(hit) == HIT
    assert (world.word(hit["first_archive_id"]), world.word(hit["last_archive_id"])) == ("d1", "d3")
    assert is_timestamp(hit["first_seen_at"])
    assert hit["present_in_latest"] is True


def test_pages_contain_every_hit_once_across_repositories(world: World, second: dict[str, Any]) -> None:
    wanted = both(world, second)
    whole = [hit for page in pages(world.admin, q="page-", limit=500, **wanted) for hit in page["results"]]

    paged = pages(world.admin, q="page-", limit=5, **wanted)

    hits = [(hit["repository_id"], hit["path"]) for page in paged for hit in page["results"]]
    assert sorted(hits) == sorted((hit["repository_id"], hit["path"]) for hit in whole)
    assert len(hits) == len(set(hits)) == 24
    assert paged[-1]["coverage"]["looked_at"] == 2


def test_a_viewer_of_one_repository_gets_the_same_results_as_if_there_were_no_other(
    world: World, second: dict[str, Any]
) -> None:
    viewer = world.running.client_with_right(world.repository, "viewer")
    of_one = {"repository_id[]": world.repository["id"]}

    for query in ("keep", "e", "letters/", "no such name"):
        seen = pages(viewer, q=query, limit=10)
        alone = pages(world.admin, q=query, limit=10, **of_one)
        assert [page["results"] for page in seen] == [page["results"] for page in alone]
        assert seen[-1]["coverage"] == alone[-1]["coverage"]
        assert second["name"] not in str(seen)
    assert error_of(viewer.get("/api/search", params={"q": "e", "repository_id[]": second["id"]})) == (
        404,
        "repository.not_found",
    )


def test_a_user_without_rights_finds_nothing(world: World) -> None:
    found = get(world.running.stranger, "/api/search", q="keep")

    assert (found["results"], found["next_cursor"]) == ([], None)
    assert found["coverage"] == {"repositories": 0, "looked_at": 0, "incomplete": [], "incomplete_count": 0}
    assert get(world.running.stranger, "/api/history", path=world.at("keep.md"))["repositories"] == []


@pytest.mark.parametrize(
    ("params", "takes"),
    [
        ({"extension": "txt"}, lambda hit: hit["path"].endswith(".txt")),
        ({"extension": ".TXT"}, lambda hit: hit["path"].endswith(".txt")),
        ({"min_size": 6}, lambda hit: hit["size"] is not None and hit["size"] >= 6),
        ({"max_size": 5}, lambda hit: hit["size"] is not None and hit["size"] <= 5),
        ({"deleted_only": True}, lambda hit: not hit["present_in_latest"]),
        ({"modified_since": "2999-01-01T00:00:00Z"}, lambda _hit: False),
    ],
)
def test_filters_return_only_the_matching_files(
    world: World, params: dict[str, Any], takes: Callable[[dict[str, Any]], bool]
) -> None:
    of_one = {"repository_id[]": world.repository["id"], "q": "t", "limit": 100}
    every = [hit for page in pages(world.admin, **of_one) for hit in page["results"]]

    found = [hit for page in pages(world.admin, **of_one, **params) for hit in page["results"]]

    assert found == [hit for hit in every if takes(hit)]


@pytest.fixture
def remote(world: World, second: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The second repository, as if it belonged to an agent."""
    row = update(Repository).where(Repository.id == second["id"])
    with world.running.store() as session:
        session.execute(row.values(execution_target="agent", agent_machine_id=REMOTE))
    yield second
    with world.running.store() as session:
        session.execute(row.values(execution_target="local", agent_machine_id=None))


def test_a_search_is_narrowed_to_machines_before_repositories_are_counted(world: World, remote: dict[str, Any]) -> None:
    def searched(client: Client, **params: Any) -> tuple[list[int], int]:
        found = pages(client, q="keep.md", **params)
        hits = [hit["repository_id"] for page in found for hit in page["results"]]
        return hits, found[-1]["coverage"]["repositories"]

    local, wanted = world.repository["id"], both(world, remote)
    assert searched(world.admin, **wanted, **{"machine[]": f"agent:{REMOTE}"}) == ([remote["id"]], 1)
    assert searched(world.admin, **wanted, machine="local") == ([local], 1)
    assert searched(world.admin, **wanted, **{"machine[]": ["local", f"agent:{REMOTE}"]}) == ([local, remote["id"]], 2)
    assert searched(world.admin, **wanted, **{"machine[]": f"ssh:{REMOTE}"}) == ([], 0)

    viewer = world.running.client_with_right(world.repository, "viewer")
    hidden, unknown = (pages(viewer, q="keep.md", machine=key) for key in (f"agent:{REMOTE}", "agent:999999"))
    assert hidden == unknown
    assert searched(viewer, machine=f"agent:{REMOTE}") == ([], 0)
    assert searched(viewer, machine="local") == ([local], 1)


def test_a_folder_has_no_size_in_searches_and_histories(world: World) -> None:
    of_one = {"repository_id[]": world.repository["id"]}
    folder = world.at("letters")

    found = [hit for page in pages(world.admin, q="letters", **of_one) for hit in page["results"]]
    own = world.get("/search", q="letters")["results"]
    history = get(world.admin, "/api/history", path=folder, **of_one)["repositories"]
    entries = world.get("/history", path=folder)["entries"]

    assert [hit["size"] for hit in found if hit["path"] == folder] == [None]
    assert [hit["size"] for hit in own if hit["path"] == folder] == [None]
    assert [each["size"] for each in history] == [None]
    assert {entry["size"] for entry in entries} == {None}


def test_the_history_of_a_path_lists_the_repositories_that_contained_it(world: World, second: dict[str, Any]) -> None:
    found = get(world.admin, "/api/history", path=world.at("keep.md"), **both(world, second))
    missing = get(world.admin, "/api/history", path="no/such/path", **both(world, second))
    one = world.get("/history", path=world.at("notes.txt"))
    notes = get(world.admin, "/api/history", path=world.at("notes.txt"), **both(world, second))["repositories"][0]

    assert [each["repository_id"] for each in found["repositories"]] == [world.repository["id"], second["id"]]
    assert found["repositories"][0]["presence"] == "present"
    assert (missing["repositories"], missing["coverage"]["looked_at"]) == ([], 2)
    assert notes["versions"] == sum(entry["change"] != "removed" for entry in one["entries"])
    assert notes["presence"] == one["presence"]


@pytest.mark.parametrize(
    ("route", "params", "error"),
    [
        ("search", {"q": " "}, (422, "archives.empty_query")),
        ("search", {"q": "a", "cursor": "nonsense"}, (422, "paging.bad_cursor")),
        ("search", {"q": "a", "repository_id[]": "x"}, (422, "archives.bad_repository_id")),
        ("search", {"q": "a", "repository_id[]": 999_999}, (404, "repository.not_found")),
        ("search", {"q": "a", "machine[]": "web1"}, (422, "archives.bad_machine")),
        ("search", {"q": "a", "machine[]": "agent:"}, (422, "archives.bad_machine")),
        ("search", {"q": "a", "machine": "ssh:-1"}, (422, "archives.bad_machine")),
        ("history", {"path": "/"}, (422, "archives.bad_path")),
        ("history", {"path": "a", "cursor": "nonsense"}, (422, "paging.bad_cursor")),
        ("search", {}, None),
        ("search", {"q": "a", "limit": 501}, None),
        ("search", {"q": "a", "min_size": -1}, None),
    ],
)
def test_invalid_queries_are_refused(
    world: World, route: str, params: dict[str, Any], error: tuple[int, str] | None
) -> None:
    answer = world.admin.get(f"/api/{route}", params=params)

    assert (answer.status_code if error is None else error_of(answer)) == (error or 422)


def test_a_search_with_no_time_left_still_progresses_and_eventually_finds_everything(
    world: World, second: dict[str, Any]
) -> None:
    """Each call searches at least one repository, so that paging reaches the end however slow the machine is."""
    if world.running.process.database_url:
        pytest.skip("the walk is the same on both stores, and files can be opened beside the service")
    data = world.running.process.data_dir
    settings = Settings(data_dir=data)
    database = Database(settings.store_url)
    admin = Caller(1, "admin", Role.ADMIN, None, 1, None, False, None)
    index = build_index(settings, None)  # type: ignore[arg-type]  # no engine is run
    wanted = [world.repository["id"], second["id"]]
    try:
        found, calls, cursor = [], 0, None
        while True:
            fleet = FleetSearch.of(database, index, ServicePlaces(settings), admin, wanted)
            fleet.seconds = 0.0
            page = fleet.search("keep.md", FleetQuery(), 50, cursor)
            found += [hit.repository_id for hit in page.results]
            calls, cursor = calls + 1, page.next_cursor
            if cursor is None:
                break
    finally:
        index.indexes.close()
        database.dispose()
    assert (found, calls) == (wanted, 2)
