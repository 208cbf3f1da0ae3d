"""What a survey of a repository's folder finds, and what counts as suspicious."""

import os
from pathlib import Path

import msgpack
import pytest

from holdfast.mirror.sanity import suspicions
from holdfast.mirror.source import Survey, survey
from tests.support.peak import MIB, growths_of

IDENTITY = "ab" * 32


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The folder of a repository of engine 1 whose last transaction is 5; segment 3 no longer exists."""
    (tmp_path / "config").write_text(f"[repository]\nversion = 1\nid = {IDENTITY}\n")
    (tmp_path / "README").write_text("a repository")
    (tmp_path / "data" / "0").mkdir(parents=True)
    for number in (0, 1, 2, 4, 5):
        (tmp_path / "data" / "0" / str(number)).write_bytes(b"x" * 100)
    (tmp_path / "index.5").write_bytes(b"index")
    hints = {"version": 2, "segments": {0: 1, 1: 0, 2: 7, 3: 0, 4: 2, 5: 0}, "compact": {}}
    (tmp_path / "hints.5").write_bytes(msgpack.packb(hints))
    return tmp_path


def words(found: Survey, **more: object) -> list[str]:
    given = {"engine_id": IDENTITY, "mirrored": None, "shrink_percent": 50, **more}
    return [word for word, _ in suspicions(found, **given)]  # type: ignore[arg-type]


def test_a_sound_repository_is_not_suspicious(repository: Path) -> None:
    found = survey(repository, 1)

    assert words(found) == []
    assert (found.identity, found.newest, found.files) == (IDENTITY, 5, 9)
    assert found.bytes == sum(file.stat().st_size for file in repository.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    ("gone", "word"),
    [
        ("config", "config_missing"),
        ("README", "readme_missing"),
        ("data/0/2", "segments_missing"),
        ("data/0/5", "segments_missing"),
    ],
)
def test_missing_files_are_reported(repository: Path, gone: str, word: str) -> None:
    (repository / gone).unlink()

    assert word in words(survey(repository, 1))


def test_an_empty_segment_may_be_missing(repository: Path) -> None:
    (repository / "data" / "0" / "1").unlink()

    assert words(survey(repository, 1)) == []


def test_a_missing_folder_or_an_unreadable_config_is_reported_without_an_exception(tmp_path: Path) -> None:
    assert words(survey(tmp_path / "nowhere", 1)) == ["missing"]
    (tmp_path / "config").write_bytes(b"\xff\x00 not a config")
    assert "config_missing" in words(survey(tmp_path, 1))


def test_unreadable_hints_are_not_suspicious(repository: Path) -> None:
    (repository / "hints.5").write_bytes(b"\xc1 no such thing")

    assert words(survey(repository, 1)) == []


def test_uncommitted_segments_are_left_out_of_the_mirror(repository: Path) -> None:
    (repository / "data" / "0" / "6").write_bytes(b"cut off")

    assert survey(repository, 1).uncommitted == ["data/0/6"]


def test_locks_are_reported_but_not_counted(repository: Path) -> None:
    before = survey(repository, 1)
    (repository / "lock.exclusive").mkdir()
    (repository / "lock.exclusive" / "host@1.42-0").touch()
    (repository / "lock.roster").write_text("{}")

    found = survey(repository, 1)

    assert (found.files, found.bytes) == (before.files, before.bytes)
    assert found.locked_by == ["host@1.42-0"]


@pytest.mark.parametrize(("percent", "expected"), [(50, ["shrunk"]), (90, [])])
def test_a_sudden_shrink_is_judged_by_the_threshold(repository: Path, percent: int, expected: list[str]) -> None:
    found = survey(repository, 1)
    before = {"bytes": found.bytes * 4, "newest": 5}

    assert words(found, mirrored=before, shrink_percent=percent) == expected


def test_an_older_state_and_another_repository_are_suspicious(repository: Path) -> None:
    found = survey(repository, 1)

    assert words(found, mirrored={"bytes": found.bytes, "newest": 6}) == ["set_back"]
    assert words(found, engine_id="cd" * 32) == ["other_repository"]


def test_a_survey_survives_a_round_trip_through_json(repository: Path) -> None:
    (repository / "README").unlink()
    found = survey(repository, 1)

    assert Survey.from_json(found.as_json()) == found


def test_an_engine_2_repository_needs_a_config_a_manifest_and_data_for_its_archives(tmp_path: Path) -> None:
    assert set(words(survey(tmp_path, 2))) == {"config_missing", "manifest_missing"}
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "id").write_text(IDENTITY)
    (tmp_path / "config" / "manifest").write_bytes(b"manifest")
    assert words(survey(tmp_path, 2)) == [], "a new one has no data yet"
    (tmp_path / "archives").mkdir()
    (tmp_path / "archives" / IDENTITY).touch()
    assert words(survey(tmp_path, 2)) == ["segments_missing"]
    (tmp_path / "packs" / "4e").mkdir(parents=True)
    (tmp_path / "packs" / "4e" / IDENTITY).write_bytes(b"data")
    assert words(survey(tmp_path, 2)) == []


# --- hostile repositories -------------------------------------------------------------------------------------------

SURVEYED = """
from pathlib import Path
from holdfast.mirror.source import survey
import msgpack
def surveyed():
    return survey(Path(sys.argv[1]), int(sys.argv[2])).problems
measured(surveyed)
"""


@pytest.mark.parametrize(
    "hints",
    [
        b"\x82\xa7compact\xdd\x00\x80\x00\x00" + b"\x90" * 0x800000 + b"\xa8segments\x80",
        b"\x81\xa8segments\xdf\x00\x40\x00\x00" + b"\x01\x90" * 0x400000,
        b"\x81" + b"\x91" * 100_000,
    ],
    ids=["lists", "lists for numbers", "nested"],
)
def test_hints_of_a_hostile_repository_take_little_memory(repository: Path, hints: bytes) -> None:
    """8 MB of hints once took 600 MB of memory."""
    (repository / "hints.5").write_bytes(hints)

    ((growth, problems),) = growths_of(SURVEYED, str(repository), "1")

    assert growth < 64 * MIB
    assert problems == []


def test_hint_entries_that_are_not_numbers_are_ignored(repository: Path) -> None:
    (repository / "hints.5").write_bytes(msgpack.packb({"segments": {"a": 1, 9: 1, 7: 2, b"x": 3, 8: 0}}))

    (told,) = survey(repository, 1).problems

    assert told == ("segments_missing", "2 segments with data are missing: 7, 9.")


@pytest.mark.parametrize(("major", "name"), [(1, "config"), (1, "hints.5"), (2, "config/id"), (2, "locks/a")])
def test_a_survey_does_not_block_on_a_pipe_in_place_of_a_file(repository: Path, major: int, name: str) -> None:
    if major == 2:
        (repository / "config").unlink()
        for folder in ("config", "locks"):
            (repository / folder).mkdir()
    (repository / name).unlink(missing_ok=True)
    os.mkfifo(repository / name)

    survey(repository, major)


def test_a_very_deep_folder_is_measured(repository: Path) -> None:
    folders = [repository / "/".join(["d"] * depth) for depth in range(1, 1200)]
    for folder in folders:
        folder.mkdir()
    (folders[-1] / "file").write_bytes(b"x")

    found = survey(repository, 1)

    (folders[-1] / "file").unlink()
    for folder in reversed(folders):
        folder.rmdir()
    assert found.files == 10


def test_a_huge_lock_names_no_holder(repository: Path) -> None:
    (repository / "locks").mkdir()
    with (repository / "locks" / "a").open("wb") as file:
        file.truncate(1 << 40)

    assert survey(repository, 2).locked_by == []
