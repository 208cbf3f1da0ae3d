"""What proves that a repository is unchanged: every change that an engine or another program can make is detected."""

import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from backup_engine import repository_state
from backup_engine.command import Command, Machine, RepositoryGuard
from backup_engine.repository_state import RepositoryPlace, RepositoryState, place_of, state_of

OLD = 3_600_000_000_000


@pytest.fixture
def one(tmp_path: Path) -> RepositoryPlace:
    """A repository as engine 1 leaves it after three commits."""
    folder = tmp_path / "one"
    (folder / "data" / "0").mkdir(parents=True)
    (folder / "data" / "1").mkdir()
    for name in ("config", "README", "index.1003", "hints.1003", "integrity.1003", "nonce"):
        (folder / name).write_text(name)
    for number in (1, 3, 999, 1000, 1001, 1003):
        (folder / "data" / str(number // 1000) / str(number)).write_text(f"segment {number}")
    return RepositoryPlace(1, str(folder), (str(tmp_path / "record"),))


@pytest.fixture
def two(tmp_path: Path) -> RepositoryPlace:
    folder = tmp_path / "two"
    for name in ("archives", "cache", "config", "index", "keys", "locks", "packs/67"):
        (folder / name).mkdir(parents=True)
    for name in ("archives/ab12", "config/id", "config/manifest", "index/1f", "keys/77", "packs/67/6700"):
        (folder / name).write_text(name)
    return RepositoryPlace(2, str(folder), (str(tmp_path / "record"),))


def state(place: RepositoryPlace) -> RepositoryState:
    found = state_of(place)
    assert found is not None
    return found


def test_an_untouched_repository_keeps_its_state(one: RepositoryPlace, two: RepositoryPlace) -> None:
    assert state(one) == state(one)
    assert state(two) == state(two)
    assert state(one) != state(two)


def in_place(file: Path) -> None:
    """Change a file and restore its time, as programs do that copy one repository over another."""
    before = file.stat()
    content = file.read_bytes()
    file.write_bytes(content[::-1])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES_OF_1: dict[str, Callable[[Path], object]] = {
    "a commit": lambda folder: (folder / "index.1003").rename(folder / "index.1007"),
    "a segment whose commit has no index yet": lambda folder: (folder / "data/1/1004").write_text("commit"),
    "a segment in a new folder": lambda folder: (folder / "data/2").mkdir(),
    "an old segment that is removed": lambda folder: (folder / "data/0/3").unlink(),
    "the newest segment is cut": lambda folder: os.truncate(folder / "data/1/1003", 3),
    "the newest segment is changed in place": lambda folder: in_place(folder / "data/1/1003"),
    "an index that is deleted": lambda folder: (folder / "index.1003").unlink(),
    "an index that is changed in place": lambda folder: in_place(folder / "index.1003"),
    "the key in the configuration": lambda folder: in_place(folder / "config"),
    "data of another repository": lambda folder: replaced(folder / "data"),
    "another repository at its place": lambda folder: replaced(folder),
    "other rights": lambda folder: folder.chmod(0o500),
    "the engine's record of it": lambda folder: (folder.parent / "record").write_text("elsewhere"),
}
CHANGES_OF_2: dict[str, Callable[[Path], object]] = {
    "a new archive": lambda folder: (folder / "archives/cd34").touch(),
    "an archive that is deleted": lambda folder: (folder / "archives/ab12").rename(folder / "archives/ab12.del"),
    "a manifest": lambda folder: in_place(folder / "config/manifest"),
    "a key": lambda folder: in_place(folder / "keys/77"),
    "a part of the index": lambda folder: (folder / "index/2f").touch(),
    "a pack that is removed": lambda folder: (folder / "packs/67/6700").unlink(),
    "a pack in a new folder": lambda folder: (folder / "packs/68").mkdir(),
    "another repository at its place": lambda folder: replaced(folder),
    "the engine's record of it": lambda folder: (folder.parent / "record").write_text("elsewhere"),
}


def replaced(folder: Path) -> None:
    """Replace a folder with a copy that keeps all times and names."""
    shutil.copytree(folder, folder.with_name("copy"))
    folder.rename(folder.with_name("moved away"))
    folder.with_name("copy").rename(folder)


@pytest.mark.parametrize("change", CHANGES_OF_1)
def test_every_change_of_an_engine_1_repository_is_detected(one: RepositoryPlace, change: str) -> None:
    before = state(one)

    CHANGES_OF_1[change](Path(one.folder))

    assert state(one) != before


@pytest.mark.parametrize("change", CHANGES_OF_2)
def test_every_change_of_an_engine_2_repository_is_detected(two: RepositoryPlace, change: str) -> None:
    before = state(two)

    CHANGES_OF_2[change](Path(two.folder))

    assert state(two) != before


def test_traces_of_a_reader_are_not_a_change(one: RepositoryPlace, two: RepositoryPlace) -> None:
    before = state(one), state(two)

    (Path(one.folder) / "lock.roster").touch()
    (Path(two.folder) / "locks/reader").touch()
    (Path(two.folder) / "locks/reader").unlink()

    assert (state(one), state(two)) == before


def test_a_locked_repository_has_no_state(one: RepositoryPlace, two: RepositoryPlace) -> None:
    (Path(one.folder) / "lock.exclusive").mkdir()
    (Path(two.folder) / "locks/writer").touch()

    assert state_of(one) is None
    assert state_of(two) is None


def test_a_state_is_settled_only_two_seconds_after_the_last_change(
    one: RepositoryPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = max(path.stat().st_ctime_ns for path in Path(one.folder).rglob("*"))
    settled = []
    for seconds in (-3600, 0, 1.9, 2.1):
        monkeypatch.setattr(time, "time_ns", lambda at=newest + int(seconds * 1e9): at)
        settled.append(state(one).is_settled)

    assert settled == [False, False, False, True], "and none that comes from the future"


@pytest.mark.parametrize("where", ["", "data", "data/1", "data/1/1003", "config"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_links_are_not_followed_and_pipes_are_not_opened_among_the_files_of_a_repository(
    one: RepositoryPlace, tmp_path: Path, where: str, kind: str
) -> None:
    file, away = Path(one.folder, where), tmp_path / "away"
    file.rename(away)
    if kind == "link":
        file.symlink_to(away)
    else:
        os.mkfifo(file)

    found = state_of(one)

    assert found is None or (where == "" and kind == "link"), "the repository itself may be reached through a link"


def test_there_is_no_state_on_a_file_system_that_may_not_record_every_change(
    one: RepositoryPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    nfs = 0x6969
    monkeypatch.setattr(repository_state, "_file_system", lambda _folder: nfs)

    assert state_of(one) is None


def test_a_missing_repository_has_no_state(one: RepositoryPlace) -> None:
    shutil.rmtree(one.folder)

    assert state_of(one) is None


def test_only_a_local_repository_with_a_known_id_has_a_place() -> None:
    def command(
        machine: Machine | None = None, path: str | None = "/there", engine_id: str | None = "ab" * 32
    ) -> Command:
        guard = RepositoryGuard(1, engine_id, path, "borg", ())
        return Command(("borg",), {"BORG_BASE_DIR": "/base"}, machine=machine, guard=guard)

    place = place_of(command())

    assert place is not None
    assert (place.major, place.folder) == (1, "/there")
    assert {Path(record).name for record in place.records} == {
        *("key-type", "location", "manifest-timestamp"),
        "config",
    }
    assert place_of(command(machine=Machine("another", (), None))) is None
    assert place_of(command(path=None)) is None
    assert place_of(command(engine_id=None)) is None


def test_only_file_metadata_is_read(one: RepositoryPlace) -> None:
    for path in Path(one.folder).rglob("*"):
        if stat.S_ISREG(path.stat().st_mode):
            os.utime(path, ns=(OLD, path.stat().st_mtime_ns))

    state(one)

    times = {path.stat().st_atime_ns for path in Path(one.folder).rglob("*") if path.is_file()}
    assert times == {OLD}
