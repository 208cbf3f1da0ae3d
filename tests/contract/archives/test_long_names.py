"""Pages that end with a name as long as file systems allow: the next page continues after it."""

from typing import Any

import pytest

from tests.contract.archives.world import get, wait_for_index
from tests.support.running import Running, Services

NAMES = [letter + "\N{SNOWMAN}" * 84 for letter in "abc"]
"""Names of 253 bytes."""


@pytest.fixture(scope="module")
def running(services: Services) -> Running:
    return services.get()


@pytest.fixture(scope="module")
def repository(running: Running) -> dict[str, Any]:
    """A repository with two archives of a folder, between which the content of all its files changed."""
    source = running.new_source(files=0)
    made = running.new_repository(source_paths=[str(source)], index_mode="full", archive_name_template="{now}")
    for content in ("one", "another"):
        for name in NAMES:
            (source / name).write_text(content)
        started = running.admin.post("/api/backup/start", json={"repository": made["path"]}).json()
        assert running.admin.wait_for_end(started["job_id"])["status"] == "completed"
    wait_for_index(running.admin, made)
    return {**made, "source": str(source).lstrip("/")}


@pytest.mark.parametrize(
    ("route", "entries", "params"),
    [
        ("/archives/{archive}/browse", "entries", {}),
        ("/archives/{archive}/browse", "entries", {"sort": "-name"}),
        ("/archives/{archive}/browse", "entries", {"sort": "size"}),
        ("/archives/{archive}/changes", "groups", {"group_by": "folder"}),
        ("/lanes", "entries", {}),
    ],
)
def test_paging_continues_after_the_longest_names(
    running: Running, repository: dict[str, Any], route: str, entries: str, params: dict[str, str]
) -> None:
    url = f"/api/repositories/{repository['id']}"
    archive = get(running.admin, f"{url}/archives")["archives"][0]["id"]
    params = {**params, "limit": "1", "path_prefix" if entries == "groups" else "path": repository["source"]}
    found: list[str] = []
    while True:
        page = get(running.admin, url + route.format(archive=archive), **params)
        found += [entry["name"] for entry in page[entries]]
        if page["next_cursor"] is None:
            break
        params["cursor"] = page["next_cursor"]

    assert sorted(found) == NAMES
