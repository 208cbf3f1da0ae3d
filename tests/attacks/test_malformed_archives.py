"""One archive that the engine cannot read does not affect the others of its repository."""

from collections.abc import Iterator

import pytest

from backup_engine.results import parse_archives
from tests.support.engines import ENGINES
from tests.support.hostile import HostileArchive, HostileRepository, item
from tests.support.running import Running, Services

MALFORMED = {
    "no end": HostileArchive("no-end", [item(b"a")], metadata={"time_end": "never"}),
    "no items": HostileArchive("no-items", [b"\xc1" * 100]),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    services = Services(tmp_path_factory.mktemp("services"))
    yield services.get()
    services.stop()


@pytest.mark.parametrize("malformed", MALFORMED)
def test_a_repository_with_a_malformed_archive_is_imported_and_that_archive_is_named(
    running: Running, malformed: str
) -> None:
    admin, bad = running.admin, MALFORMED[malformed]
    path, source = running.new_path(), running.new_source()
    made = HostileRepository(ENGINES["1.4"], path)
    made.run("init", "--encryption", "none", str(path))
    made.run("create", f"{path}::good", str(source))
    made.write(bad)
    body = {"name": running.new_name("old"), "path": str(path), "encryption": "none", "index_mode": "archives"}
    answer = admin.post("/api/repositories/import", json={**body, "source_paths": [str(source)]})
    assert answer.status_code == 201, answer.text
    url = f"/api/repositories/{answer.json()['id']}"
    assert answer.json()["engine_id"]
    running.wait_until_idle()

    synced = admin.wait_for_end(admin.post(f"{url}/resync").json()["operations"][0])
    assert synced["status"] in ("completed", "completed_with_warnings"), synced
    archives = {archive["name"]: archive for archive in admin.get(f"{url}/archives").json()["archives"]}
    assert set(archives) == {"good", bad.name}
    if synced["status"] == "completed_with_warnings":
        assert any(bad.name in warning["message"] for warning in synced["warnings"]), synced

    restore = {"repository_id": answer.json()["id"], "archive_id": archives["good"]["id"], "paths": []}
    place = str(running.new_path("restored"))
    job = admin.post("/api/restore/start", json={**restore, "destination": place}).json()["job_id"]
    assert admin.wait_for_end(job)["status"] == "completed"
    checked = admin.post(f"{url}/restore-check", json={"archive_id": archives["good"]["id"], "full_archive": True})
    assert admin.wait_for_end(checked.json()["job_id"])["status"] == "completed"


@pytest.mark.parametrize(
    "field",
    ['"comment": 5', '"hostname": ["x"]', '"username": {}', '"end": "never"', '"end": 7', '"comment": "\\ud800"'],
)
def test_invalid_metadata_of_an_archive_does_not_break_the_list(field: str) -> None:
    start = '"start": "2026-01-01T00:00:00.000000"'
    good, bad = f'{{"name": "good", "id": "1", {start}}}', f'{{"name": "bad", "id": "2", {start}, {field}}}'

    listed = parse_archives(f'{{"archives": [{good}, {bad}]}}'.encode())

    assert [archive.name for archive in listed] == ["good", "bad"]


def test_an_archive_listed_without_details_is_recognised() -> None:
    bare, full = parse_archives(
        b'{"archives": [{"name": "a", "id": "1", "start": "2026-01-01T00:00:00"},'
        b' {"name": "b", "id": "2", "start": "2026-01-01T00:00:00", "comment": ""}]}'
    )
    assert (bare.is_bare, full.is_bare) == (True, False)
