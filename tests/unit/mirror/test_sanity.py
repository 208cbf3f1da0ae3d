"""What a look at a repository's folder finds, and what is suspicious about it."""

from pathlib import Path

import msgpack
import pytest

from holdfast.mirror.sanity import suspicions
from holdfast.mirror.source import Survey, survey

IDENTITY = "ab" * 32


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The folder of a repository of engine 1 whose last transaction is 5; segment 3 holds nothing any more."""
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
def test_what_is_missing_is_told(repository: Path, gone: str, word: str) -> None:
    (repository / gone).unlink()

    assert word in words(survey(repository, 1))


def test_a_segment_that_holds_nothing_may_be_missing(repository: Path) -> None:
    (repository / "data" / "0" / "1").unlink()

    assert words(survey(repository, 1)) == []


def test_no_folder_and_no_config_are_told_without_an_error(tmp_path: Path) -> None:
    assert words(survey(tmp_path / "nowhere", 1)) == ["missing"]
    (tmp_path / "config").write_bytes(b"\xff\x00 not a config")
    assert "config_missing" in words(survey(tmp_path, 1))


def test_hints_that_cannot_be_read_are_not_held_against_the_repository(repository: Path) -> None:
    (repository / "hints.5").write_bytes(b"\xc1 no such thing")

    assert words(survey(repository, 1)) == []


def test_what_no_transaction_knows_yet_is_left_out_of_the_mirror(repository: Path) -> None:
    (repository / "data" / "0" / "6").write_bytes(b"cut off")

    assert survey(repository, 1).uncommitted == ["data/0/6"]


def test_locks_are_neither_counted_nor_hidden(repository: Path) -> None:
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


def test_a_survey_survives_being_kept_as_json(repository: Path) -> None:
    (repository / "README").unlink()
    found = survey(repository, 1)

    assert Survey.from_json(found.as_json()) == found


def test_a_repository_of_engine_2_needs_its_config_its_manifest_and_data_for_its_archives(tmp_path: Path) -> None:
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
