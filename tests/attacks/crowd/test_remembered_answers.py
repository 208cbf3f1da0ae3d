"""The cache of live answers: no user gets another's, and no repository makes validating or storing them costly."""

import os
from pathlib import Path
from typing import Any

import pytest

from backup_engine import repository_state
from backup_engine.command import Command, RepositoryGuard
from backup_engine.detect import EngineProgram
from backup_engine.repository_state import MOST_FACTS, RepositoryPlace, state_of
from holdfast.archives.live_answer_cache import MOST_BYTES, MOST_BYTES_OF_ONE, LiveAnswerCache, StateBefore
from holdfast.archives.live_answers import LIVE_ANSWERS
from holdfast.repositories.models import Repository
from tests.contract.fields import error_of
from tests.support.in_process import InProcess, started
from tests.support.peak import growths_of
from tests.support.service import wait_until

PASSWORD = "a long enough password"
PROGRAM = EngineProgram("/usr/bin/borg", "1.4.5", (1, 4, 5), 1)
LIST = ("archives",)


@pytest.fixture
def place(tmp_path: Path) -> RepositoryPlace:
    (tmp_path / "one" / "data" / "0").mkdir(parents=True)
    (tmp_path / "one" / "config").touch()
    (tmp_path / "one" / "data" / "0" / "1").touch()
    return RepositoryPlace(1, str(tmp_path / "one"), ())


@pytest.mark.parametrize("where", [".", "data"])
def test_reading_the_state_of_a_repository_with_too_many_files_is_given_up(place: RepositoryPlace, where: str) -> None:
    assert state_of(place) is not None

    for number in range(MOST_FACTS):
        (Path(place.folder) / where / f"flood-{number}").touch()

    assert state_of(place) is None


def test_the_number_of_segment_names_read_is_bounded(place: RepositoryPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(200):
        (Path(place.folder) / "data" / "0" / str(number)).touch()
    monkeypatch.setattr(repository_state, "MOST_NAMES", 100)
    read, scandir = [0], os.scandir

    class Counted:
        def __init__(self, folder: int) -> None:
            self.entries = scandir(folder)

        def __enter__(self) -> "Counted":
            return self

        def __exit__(self, *_: object) -> None:
            self.entries.close()

        def __iter__(self) -> "Counted":
            return self

        def __next__(self) -> Any:
            read[0] += 1
            return next(self.entries)

    monkeypatch.setattr(os, "scandir", Counted)

    assert state_of(place) is None
    assert read[0] <= 105


def remembered(memory: LiveAnswerCache, words: tuple[object, ...]) -> Any:
    return memory.answer(words, Repository(id=1), PROGRAM, ())


def keep(memory: LiveAnswerCache, place: RepositoryPlace, words: tuple[object, ...], answer: object) -> None:
    before = StateBefore(Repository(id=1))
    before.program, before.place, before.state = PROGRAM, place, state_of(place)
    memory.keep(words, before, (), answer)


def test_the_cache_is_bounded_and_a_single_answer_never_takes_most_of_it(
    place: RepositoryPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_state, "SETTLED_SECONDS", -3600)
    memory = LiveAnswerCache()
    keep(memory, place, LIST, LIST)
    keep(memory, place, ("browse", "large"), bytes(MOST_BYTES_OF_ONE))
    assert remembered(memory, LIST) == LIST
    assert remembered(memory, ("browse", "large")) is None

    each = MOST_BYTES // 100
    for number in range(300):
        keep(memory, place, ("browse", number), bytes(each))
        assert remembered(memory, LIST) == LIST, "what is used stays"
        assert memory._bytes <= MOST_BYTES

    kept = [number for number in range(300) if memory.has(1, ("browse", number))]
    assert kept == list(range(300 - len(kept), 300)), "what was not used for longest has gone"
    assert 90 <= len(kept) < 100
    for number in kept:
        keep(memory, place, ("browse", number), bytes(each))
    assert memory._bytes == sum(known.size for known in memory._known.values())
    memory.forget(1)
    assert memory._bytes == 0


LONG_WORDS = """
import os
from pathlib import Path
from backup_engine import repository_state
from backup_engine.repository_state import RepositoryPlace, state_of
from holdfast.archives.live_answer_cache import StateBefore, LiveAnswerCache
from holdfast.history.answers import BrowsePage
from holdfast.history.entry import Entry
from holdfast.repositories.models import Repository

repository_state.SETTLED_SECONDS = -3600
place, memory = RepositoryPlace(1, sys.argv[1], ()), LiveAnswerCache()
def keep(words, answer):
    before = StateBefore(Repository(id=1, history_index_excludes=["x" * 100_000]))
    before.place, before.state = place, state_of(place)
    memory.keep(words, before, (), answer)
def long_folders():
    for number in range(1_500):
        keep(("browse", 1, os.urandom(60_000), 500, None, ""), BrowsePage(False, [], None))
def long_owners():
    for number in range(100):
        owners = ["\U0001f600" * 1000 + str(number * 100 + user) for user in range(100)]
        keep(("browse", number), BrowsePage(True, [Entry(b"a", 0, 0, 0, one, one + ".", 0, 0) for one in owners], None))
keep(("archives",), ())
measured(long_folders)
measured(long_owners)
"""


def test_answers_with_long_texts_take_no_more_memory_than_is_counted(place: RepositoryPlace) -> None:
    for growth, result in growths_of(LONG_WORDS, place.folder):
        assert result is None
        assert growth < MOST_BYTES * 1.25


def test_an_answer_is_not_cached_if_the_repository_has_just_changed(
    place: RepositoryPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = LiveAnswerCache()
    keep(memory, place, LIST, LIST)
    assert not memory.has(1, LIST), "its files have just been made"

    monkeypatch.setattr(repository_state, "SETTLED_SECONDS", -3600)
    before = StateBefore(Repository(id=1))
    before.program, before.place, before.state = PROGRAM, place, state_of(place)
    (Path(place.folder) / "data" / "0" / "2").touch()
    memory.keep(LIST, before, (), LIST)
    assert not memory.has(1, LIST), "the engine may have read the state before or after"


def test_answers_of_a_repository_with_a_key_file_are_not_cached(tmp_path: Path) -> None:
    folder = str(tmp_path)
    guard = RepositoryGuard(1, "ab" * 32, folder, "borg", ())
    command = Command(("borg",), {"BORG_BASE_DIR": folder}, guard=guard)
    looked = {}
    for has_keyfile in (False, True):
        before = StateBefore(Repository(id=1, has_keyfile=has_keyfile))
        engine: Any = type("Engine", (), {"program": PROGRAM})
        location: Any = None
        assert before.recording(lambda *_: command)(engine, location) is command
        looked[has_keyfile] = before.place is not None

    assert looked == {False: True, True: False}


def new_user(running: InProcess, admin: dict[str, str], name: str, repository_id: int) -> dict[str, str]:
    body = {"username": name, "password": PASSWORD, "role": "viewer", "must_change_password": False}
    user = running.client.post("/api/users", json=body, headers=admin).json()
    url = f"/api/users/{user['id']}/repositories/{repository_id}"
    assert running.client.put(url, json={"role": "viewer"}, headers=admin).status_code == 200
    return running.login(name, PASSWORD)


def test_a_viewer_of_one_repository_gets_nothing_of_another_from_the_cache(tmp_path: Path) -> None:
    with started(tmp_path / "data") as running:
        admin = running.login()
        urls, viewers = [], []
        for name in ("one", "two"):
            source = tmp_path / f"source-{name}"
            source.mkdir()
            new = {"name": name, "path": str(tmp_path / name), "encryption": "none", "source_paths": [str(source)]}
            new |= {"index_mode": "off", "archive_name_template": f"{name}-{{now}}"}
            repository = running.client.post("/api/repositories/", json=new, headers=admin).json()
            running.client.post("/api/backup/start", json={"repository": repository["path"]}, headers=admin)
            urls.append(f"/api/repositories/{repository['id']}/archives")
            viewers.append(new_user(running, admin, f"viewer-{name}", repository["id"]))
        memory = running.service.parts[LIVE_ANSWERS].cache

        def names(viewer: dict[str, str], url: str) -> list[str]:
            answer = running.client.get(f"{url}/live", headers=viewer)
            assert answer.status_code == 200, answer.text
            return [archive["name"] for archive in answer.json()["archives"]]

        def both_are_remembered() -> bool:
            return all(len(names(admin, url)) == 1 for url in urls) and all(memory.has(n, LIST) for n in (1, 2))

        wait_until(both_are_remembered, what="both lists are remembered")

        assert [names(viewer, url)[0].split("-")[0] for viewer, url in zip(viewers, urls, strict=True)] == [
            "one",
            "two",
        ]
        for viewer, url in zip(viewers, reversed(urls), strict=True):
            assert error_of(running.client.get(f"{url}/live", headers=viewer))[0] == 404
