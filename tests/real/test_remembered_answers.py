"""Live lists and folders served from memory, without an engine: only while the repository is unchanged."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.archives.live_answers import LIVE_ANSWERS
from holdfast.operations.locks import Access
from holdfast.operations.queue import lane_of
from holdfast.runner.inline import INLINE_CALLS
from tests.contract.fields import error_of
from tests.real.archives.scripted_engine import ScriptedEngine
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.in_process import InProcess, started
from tests.support.service import wait_until
from tests.support.warm_engines import LOADED_WITH, warm_program


@dataclass
class Place:
    """A repository, and the engine as another program on this machine uses it."""

    running: InProcess
    engine: ScriptedEngine
    headers: dict[str, str]
    repository: dict[str, Any]
    source: Path
    base: Path

    @property
    def is_2(self) -> bool:
        return bool(self.repository["engine_version"] == 2)

    @property
    def folder(self) -> Path:
        return Path(self.repository["path"])

    @property
    def url(self) -> str:
        return f"/api/repositories/{self.repository['id']}"

    def runs(self) -> int:
        return self.engine.calls.read_text().count("\n")

    def plain(self, *arguments: str) -> str:
        """Run the engine without the service, with its own home folder."""
        environment = {
            "PATH": os.environ["PATH"],
            "BORG_BASE_DIR": str(self.base),
            **LOADED_WITH,
            "BORG_HOST_ID": "another program on this machine",
            "BORG_SELFTEST": "disabled",
            "BORG_PASSPHRASE": "of the repository",
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
            "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
        }
        ran = subprocess.run(
            [self.engine.engine, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def create(self, name: str) -> None:
        if self.is_2:
            self.plain("-r", str(self.folder), "create", name, str(self.source))
        else:
            self.plain("create", f"{self.folder}::{name}", str(self.source))

    def rename(self, name: str, to: str) -> None:
        if self.is_2:
            self.plain("-r", str(self.folder), "rename", name, to)
        else:
            self.plain("rename", f"{self.folder}::{name}", to)

    def delete(self, name: str) -> None:
        if self.is_2:
            self.plain("-r", str(self.folder), "delete", name)
        else:
            self.plain("delete", f"{self.folder}::{name}")

    def ask(self, path: str = "/archives/live", /, **params: Any) -> Any:
        return self.running.client.get(f"{self.url}{path}", params=params, headers=self.headers)

    def wait_until_idle(self) -> None:
        """A change causes background work, whose engine runs would be counted too."""

        def idle() -> bool:
            queue = self.running.client.get("/api/operations/queue", headers=self.headers)
            return not queue.json()["repositories"]

        wait_until(idle, what="nothing runs")

    def names(self) -> list[str]:
        answer = self.ask()
        assert answer.status_code == 200, answer.text
        return [one["name"] for one in answer.json()["archives"]]

    def remember(self, path: str = "/archives/live", /, **params: Any) -> Any:
        """Repeat the request until it needs no engine: nothing is cached within two seconds of a change, and until
        then each request runs one."""

        def without_an_engine() -> Any:
            before = self.runs()
            answer = self.ask(path, **params)
            assert answer.status_code == 200, answer.text
            return answer if self.runs() == before else None

        return wait_until(without_an_engine, pause=1, what="it is remembered")


PROGRAMS = {"1.2": ENGINES.get("1.2"), "1.4": ENGINES.get("1.4"), "2": ENGINE_2}
PLAYED = [
    pytest.param(name, id="1" if name == "1.4" else name, marks=pytest.mark.campaign if name == "1.2" else ())
    for name, program in PROGRAMS.items()
    if program is not None
]


@pytest.fixture(scope="module", params=PLAYED)
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[InProcess, Any]]:
    folder = tmp_path_factory.mktemp("remembering")
    program = PROGRAMS[request.param]
    assert program is not None
    engine = ScriptedEngine(folder / "engine", warm_program(program))
    named = {"borg2" if request.param == "2" else "borg1": str(engine.program)}
    with started(folder / "data", inline_wait_seconds=0.5, **named) as running:
        yield running, engine


@pytest.fixture
def place(installed: tuple[InProcess, ScriptedEngine], tmp_path: Path) -> Place:
    return new_place(*installed, tmp_path / "repository", tmp_path)


def new_place(running: InProcess, engine: ScriptedEngine, folder: Path, tmp_path: Path) -> Place:
    headers = running.login()
    source = tmp_path / "source"
    (source / "below").mkdir(parents=True, exist_ok=True)
    (source / "below" / "file").write_text("file")
    is_2 = ENGINE_2 is not None and engine.engine == warm_program(ENGINE_2)
    new = {
        "name": str(folder),
        "path": str(folder),
        "index_mode": "off",
        "source_paths": [str(source)],
        "passphrase": "of the repository",
        "engine_version": 2 if is_2 else 1,
        "encryption": "aes256-ocb" if is_2 else "repokey-blake2",
    }
    answer = running.client.post("/api/repositories/", json=new, headers=headers)
    assert answer.status_code == 201, answer.text
    return Place(running, engine, headers, answer.json(), source, tmp_path / "plain")


def test_changes_by_another_program_are_in_the_very_next_response(place: Place) -> None:
    assert place.remember().json()["archives"] == []

    place.create("one")
    assert place.names() == ["one"]
    place.create("two")
    assert place.names() == ["one", "two"]
    assert place.remember().json() == place.ask().json()

    place.rename("two", "three")
    assert sorted(place.names()) == ["one", "three"]
    place.remember()
    place.delete("one")
    assert place.names() == ["three"]
    place.remember()
    if place.is_2:
        deleted = place.plain("-r", str(place.folder), "repo-list", "--deleted", "--format={name} {id}{NL}")
        one = next(line.split()[1] for line in deleted.splitlines() if line.startswith("one "))
        place.plain("-r", str(place.folder), "undelete", f"aid:{one}")
        assert sorted(place.names()) == ["one", "three"]


def test_a_change_made_while_the_engine_reads_is_not_hidden_by_its_cached_result(place: Place) -> None:
    place.create("one")
    place.remember()
    place.create("two")
    with place.engine.rule("*list --json*", "wait") as rule:
        asked: list[Any] = []
        thread = threading.Thread(target=lambda: asked.append(place.ask()))
        thread.start()
        rule.wait_until_reached()
        place.create("three")
        rule.lift()
        thread.join(60)
    assert asked[0].status_code == 200

    place.delete("three")

    assert place.names() == ["one", "two"]


def test_a_folder_of_an_archive_without_an_index_is_read_by_an_engine_only_once(place: Place) -> None:
    place.create("one")
    assert place.running.client.post(f"{place.url}/resync", headers=place.headers).status_code == 200
    [archive] = wait_until(lambda: place.ask("/archives").json()["archives"], what="it is known")
    place.wait_until_idle()
    inside = str(place.source).lstrip("/")
    browse = f"/archives/{archive['id']}/browse"

    top = place.remember(browse, path=inside).json()
    below = place.remember(browse, path=f"{inside}/below").json()

    assert [entry["name"] for entry in top["entries"]] == ["below"]
    assert [entry["name"] for entry in below["entries"]] == ["file"]
    before = place.runs()
    assert place.ask(browse, path=inside).json() == top
    assert place.ask(browse, path=f"{inside}/below").json() == below
    assert place.runs() == before
    place.ask(browse, path=inside, q="other")
    assert place.runs() == before + 1, "another question"

    place.delete("one")

    assert place.ask(browse, path=inside).status_code == 404


def test_a_cached_list_waits_for_exclusive_work_like_an_engine_call(place: Place) -> None:
    place.remember()
    lane = lane_of(place.repository["id"])

    with place.running.service.parts[INLINE_CALLS].hold(lane, access=Access.CHANGE):
        assert error_of(place.ask()) == (423, "repository.busy")

    before = place.runs()
    assert place.names() == []
    assert place.runs() == before


def test_a_different_repository_at_the_same_path_is_detected(place: Place, tmp_path: Path) -> None:
    place.create("one")
    place.remember()
    place.folder.rename(tmp_path / "moved away")
    other = new_place(place.running, place.engine, tmp_path / "other", tmp_path)
    shutil.copytree(other.folder, place.folder)

    assert error_of(place.ask()) == (409, "repository.replaced")

    shutil.rmtree(place.folder)
    (tmp_path / "moved away").rename(place.folder)
    assert place.names() == ["one"]


def test_an_index_and_segments_deleted_by_another_program_are_noticed(place: Place) -> None:
    place.create("one")
    place.remember()
    before = place.runs()
    folder = place.folder / ("index" if place.is_2 else "data/0")
    for file in folder.iterdir():
        file.unlink()

    place.ask()

    assert place.runs() > before


def test_a_repository_locked_by_another_program_is_read_by_the_engine(place: Place) -> None:
    place.remember()
    before = place.runs()
    name = "locks/" + "0" * 64 if place.is_2 else "lock.exclusive/elsewhere@1.1-0"
    (place.folder / name).parent.mkdir(exist_ok=True)
    (place.folder / name).write_text("not a lock that the engine knows" if place.is_2 else "")
    try:
        place.ask()
        assert place.runs() > before
    finally:
        (place.folder / name).unlink(missing_ok=True)
        if not place.is_2:
            shutil.rmtree(place.folder / "lock.exclusive", ignore_errors=True)


def test_changes_of_the_repository_record_take_effect_immediately(place: Place) -> None:
    place.create("docs-2026-01-01")
    assert place.remember().json()["archives"][0]["archive_id"] is None

    changed = place.running.client.put(
        place.url, json={"archive_name_template": "docs-{now:%Y-%m-%d}"}, headers=place.headers
    )
    assert changed.status_code == 200, changed.text
    assert place.ask().json()["archives"][0]["series"] == "docs"
    assert place.running.client.post(f"{place.url}/resync", headers=place.headers).status_code == 200
    [archive] = wait_until(lambda: place.ask("/archives").json()["archives"], what="it is known")
    place.wait_until_idle()

    assert place.ask().json()["archives"][0]["archive_id"] == archive["id"]


def test_a_forgotten_repository_leaves_nothing_in_the_cache(place: Place) -> None:
    place.remember()
    memory = place.running.service.parts[LIVE_ANSWERS].cache
    assert memory.has(place.repository["id"], ("archives",))

    assert place.running.client.delete(place.url, headers=place.headers).status_code == 204

    assert not memory.has(place.repository["id"], ("archives",))
    assert place.ask().status_code == 404
