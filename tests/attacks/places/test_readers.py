"""Archives that contain the service's own data: only admins can read it."""

import io
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.places.own import archive_id, backed_up, data_folder, own_files, repository_of
from tests.contract.archives.world import wait_for_index
from tests.support.engines import ENGINE_2
from tests.support.running import Running, Services
from tests.support.service import Client


@dataclass
class Holding:
    """A repository with an archive of the data folder and of something beside it."""

    running: Running
    repository: dict[str, Any]
    operation: dict[str, Any]
    viewer: Client
    operator: Client

    @property
    def data(self) -> str:
        return str(data_folder(self.running)).lstrip("/")

    @property
    def url(self) -> str:
        return f"/api/repositories/{self.repository['id']}"

    @property
    def archive_id(self) -> int:
        return archive_id(self.running.admin, self.repository)

    @property
    def archive(self) -> str:
        return f"{self.url}/archives/{self.archive_id}"

    def body(self, **more: Any) -> dict[str, Any]:
        return {"repository_id": self.repository["id"], "archive": self.operation["archive_name"], **more}


@pytest.fixture(scope="module")
def all_held() -> dict[int, Holding]:
    return {}


WITHOUT_ENGINE_2 = pytest.mark.skipif(ENGINE_2 is None, reason="there is no engine 2")


# Access is refused before an engine is run: the rows with engine 2 repeat the others.
@pytest.fixture(params=[1, pytest.param(2, marks=[WITHOUT_ENGINE_2, pytest.mark.campaign])])
def holding(request: pytest.FixtureRequest, services: Services, all_held: dict[int, Holding]) -> Holding:
    if request.param not in all_held:
        running = services.get()
        sources = (running.new_source(), data_folder(running))
        more: dict[str, Any] = {"own_places_confirmed": True, "index_mode": "full"}
        repository = repository_of(running, *sources, engine=request.param, **more)
        backed_up(running.admin, repository, source_paths=[str(sources[0])])
        ended = backed_up(running.admin, repository)
        wait_for_index(running.admin, repository)
        clients = [running.client_with_right(repository, role) for role in ("viewer", "operator")]
        all_held[request.param] = Holding(running, repository, ended, *clients)
    return all_held[request.param]


def key_of(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["detail"]["key"]


def test_a_viewer_cannot_download_the_key(holding: Holding) -> None:
    path = {"path": f"{holding.data}/secret.key"}

    assert key_of(holding.viewer.get(f"{holding.archive}/files", params=path)) == (403, "archives.admins_only")
    assert key_of(holding.operator.get(f"{holding.archive}/files", params=path)) == (403, "archives.admins_only")
    as_admin = holding.running.admin.get(f"{holding.archive}/files", params=path)
    assert as_admin.content == (data_folder(holding.running) / "secret.key").read_bytes()


def test_a_viewer_cannot_download_the_data_folder(holding: Holding) -> None:
    answer = holding.viewer.get(f"{holding.archive}/download", params={"path": f"/{holding.data}/"})

    assert key_of(answer) == (403, "archives.admins_only")


@pytest.mark.parametrize("above", ["", "parent"])
def test_the_tar_of_a_parent_folder_excludes_the_data_folder(holding: Holding, above: str) -> None:
    path = holding.data.rpartition("/")[0] if above else ""

    answer = holding.viewer.get(f"{holding.archive}/download", params={"path": path})

    assert answer.status_code == 200, answer.text
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        names = tar.getnames()
    assert own_files(names) == []
    assert any(name.endswith("file-0") for name in names)


def test_the_zip_of_everything_excludes_the_data_folder(holding: Holding) -> None:
    answer = holding.viewer.get(f"{holding.archive}/download", params={"format": "zip"})

    names = zipfile.ZipFile(io.BytesIO(answer.content)).namelist()
    assert own_files(names) == []
    assert any(name.endswith("file-0") for name in names)


def test_a_viewer_does_not_see_the_data_folder_in_listings(holding: Holding) -> None:
    parent, name = holding.data.rsplit("/", 1)
    browsed = {
        who: holding.__dict__[who].get(f"{holding.archive}/browse", params={"path": parent}).json()["entries"]
        for who in ("viewer", "operator")
    }
    searched = holding.viewer.get(f"{holding.url}/search", params={"q": "secret.key"}).json()
    as_admin = holding.running.admin.get(f"{holding.url}/search", params={"q": "secret.key"}).json()

    assert all(entry["name"] != name for entries in browsed.values() for entry in entries)
    assert searched["results"] == []
    assert [hit["path"] for hit in as_admin["results"]] == [f"{holding.data}/secret.key"]


@pytest.mark.parametrize("route", ["browse", "history", "lanes", "changes"])
def test_a_viewer_cannot_query_the_data_folder(holding: Holding, route: str) -> None:
    url, name = {
        "browse": (f"{holding.archive}/browse", "path"),
        "history": (f"{holding.url}/history", "path"),
        "lanes": (f"{holding.url}/lanes", "path"),
        "changes": (f"{holding.archive}/changes", "path_prefix"),
    }[route]

    assert key_of(holding.viewer.get(url, params={name: f"{holding.data}/ssh"})) == (403, "archives.admins_only")


def asked_everywhere(holding: Holding, client: Client) -> dict[str, Any]:
    """For each other route that reads archives: whether its response to a query matching the data folder names it."""
    parent = holding.data.rpartition("/")[0]
    archives = client.get(f"{holding.url}/archives").json()["archives"]
    everything = {"archive_ids": [archive["id"] for archive in archives], "limit": 1000}
    changed = {"compare_to": archives[-1]["id"], "limit": 5000}
    answers = {
        "search": client.get("/api/search", params={"q": "secret.key"}),
        "lanes": client.get(f"{holding.url}/lanes", params={"path": parent}),
        "losses": client.post(f"{holding.url}/losses", json=everything),
        "changes": client.get(f"{holding.archive}/changes", params=changed),
        "groups": client.get(
            f"{holding.archive}/changes", params={**changed, "group_by": "folder", "path_prefix": parent}
        ),
    }
    assert {word: answer.status_code for word, answer in answers.items()} == dict.fromkeys(answers, 200)
    history = client.get("/api/history", params={"path": f"{holding.data}/secret.key"}).json()["repositories"]
    named = {word: holding.data in answer.text for word, answer in answers.items()}
    return {**named, "history": [one["repository_id"] for one in history] == [holding.repository["id"]]}


def test_no_other_route_that_reads_archives_names_files_of_the_data_folder(holding: Holding) -> None:
    by_admin, by_viewer = (asked_everywhere(holding, client) for client in (holding.running.admin, holding.viewer))

    assert by_admin == dict.fromkeys(by_admin, True)
    assert by_viewer == dict.fromkeys(by_admin, False)


def test_a_viewers_network_drive_does_not_contain_the_data_folder(holding: Holding) -> None:
    def drive(client: Client) -> Client:
        name = client.get("/api/auth/me").json()["username"]
        return Client(base_url=client.base_url, auth=(name, holding.running.account_token(client)))

    latest = f"/dav/{holding.repository['id']}/latest"
    parent, name = holding.data.rsplit("/", 1)
    seen = {}
    for who, client in (("viewer", drive(holding.viewer)), ("admin", drive(holding.running.admin))):
        folder = client.request("PROPFIND", f"{latest}/{parent}", headers={"Depth": "1"})
        inside = client.request("PROPFIND", f"{latest}/{holding.data}", headers={"Depth": "1"})
        key = client.get(f"{latest}/{holding.data}/secret.key")
        seen[who] = f"/{name}/" in folder.text, folder.status_code, inside.status_code, key.status_code

    assert seen == {"viewer": (False, 207, 404, 404), "admin": (True, 207, 207, 200)}


def test_neither_a_preview_nor_a_download_ticket_gives_a_viewer_the_key(holding: Holding) -> None:
    path = f"{holding.data}/secret.key"
    ids = {"repository_id": holding.repository["id"], "archive_id": holding.archive_id}
    tickets = [{**ids, "paths": [path], "format": form} for form in ("file", "tar")]

    preview = holding.viewer.get(f"{holding.archive}/preview", params={"path": path})
    made = [holding.viewer.post("/api/downloads", json=ticket) for ticket in tickets]
    whole = holding.viewer.post("/api/downloads", json={**ids, "format": "zip"}).json()
    downloaded = zipfile.ZipFile(io.BytesIO(holding.viewer.get(whole["url"]).content)).namelist()

    assert [key_of(answer) for answer in (preview, *made)] == [(403, "archives.admins_only")] * 3
    assert own_files(downloaded) == []
    assert any(name.endswith("file-0") for name in downloaded)


def test_a_viewer_cannot_infer_the_size_of_the_data_folder_from_its_parents(holding: Holding) -> None:
    above, _, parent = holding.data.rpartition("/")[0].rpartition("/")

    def seen(client: Client) -> list[Any]:
        entries = client.get(f"{holding.archive}/browse", params={"path": above, "sizes": True}).json()["entries"]
        entry = next(one for one in entries if one["name"] == parent)
        return [entry["subtree_size"], entry["item_count"]]

    assert all(seen(holding.running.admin))
    assert seen(holding.viewer) == [None, None]


def test_an_operator_cannot_restore_the_key_to_another_folder(holding: Holding, tmp_path: Path) -> None:
    body = holding.body(paths=[f"{holding.data}/secret.key"], destination=str(tmp_path / "out"))

    assert key_of(holding.operator.post("/api/restore/start", json=body)) == (403, "archives.admins_only")
    assert key_of(holding.viewer.post("/api/restore/preview", json=body)) == (403, "archives.admins_only")


def test_an_operators_wider_restore_excludes_the_data_folder(holding: Holding, tmp_path: Path) -> None:
    body = holding.body(destination=str(tmp_path / "out"))

    started = holding.operator.post("/api/restore/start", json=body).json()
    ended = holding.operator.wait_for_end(started["job_id"])

    restored = [str(file) for file in (tmp_path / "out").rglob("*")]
    assert ended["status"] == "completed", ended
    assert own_files(restored) == []
    assert any(path.endswith("file-0") for path in restored)


def test_a_viewers_restore_preview_reveals_nothing_about_the_hosts_files(holding: Holding, tmp_path: Path) -> None:
    source = Path(holding.repository["source_paths"][0])
    there = tmp_path / str(source).lstrip("/")
    there.mkdir(parents=True)
    (there / "file-0").write_text("here before")
    link = tmp_path / "link"
    link.symlink_to(there)
    bodies = [holding.body(destination=str(place), paths=[str(source)]) for place in (tmp_path, link, "/no/such")]

    by_viewer = [holding.viewer.post("/api/restore/preview", json=body) for body in bodies]
    by_operator = holding.operator.post("/api/restore/preview", json=bodies[0]).json()

    assert [answer.status_code for answer in by_viewer] == [200, 200, 200]
    assert by_viewer[0].json() == by_viewer[1].json() == by_viewer[2].json()
    assert (by_viewer[0].json()["conflict_count"], by_viewer[0].json()["conflicts_known"]) == (0, False)
    assert (by_operator["conflict_count"], by_operator["conflicts_known"]) == (1, True)
