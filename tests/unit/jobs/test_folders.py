"""What a machine reports about its folders."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from backup_jobs import folders


def names(found: dict[str, Any]) -> list[bytes]:
    return [base64.b64decode(entry["name"]) for entry in found["entries"]]


def listed(folder: Path, after: bytes = b"", limit: int = 100, *, folders_only: bool = False) -> dict[str, Any]:
    return folders.listing(os.fsencode(folder), after, limit, folders_only=folders_only)


def test_a_folder_is_listed_in_byte_order_whatever_its_names_are(tmp_path: Path) -> None:
    for name in (b"b", b"a\n", b"\xff", b"Z"):
        (tmp_path / os.fsdecode(name)).touch()

    found = listed(tmp_path)

    assert names(found) == [b"Z", b"a\n", b"b", b"\xff"]
    assert (found["more"], found["cut_short"]) == (False, False)


def test_pages_follow_each_other_without_a_gap(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).touch()

    first = listed(tmp_path, limit=2)
    second = listed(tmp_path, after=names(first)[-1], limit=3)

    assert (names(first), first["more"]) == ([b"0", b"1"], True)
    assert (names(second), second["more"]) == ([b"2", b"3", b"4"], False)


def test_a_link_to_a_folder_counts_as_a_folder_and_a_loop_does_not(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("four")

    found = listed(tmp_path, folders_only=True)
    every = {base64.b64decode(entry["name"]): entry for entry in listed(tmp_path)["entries"]}

    assert names(found) == [b"folder", b"link"]
    assert (every[b"link"]["type"], every[b"link"]["is_folder"]) == ("l", True)
    assert (every[b"file"]["type"], every[b"file"]["size"]) == ("-", 4)


def test_a_folder_with_too_many_names_is_listed_partially(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MOST_LOOKED_AT", 3)
    for number in range(5):
        (tmp_path / str(number)).touch()

    found = listed(tmp_path)

    assert len(found["entries"]) == 3
    assert found["cut_short"] is True


def test_an_unreadable_path_yields_a_reason_instead_of_an_exception(tmp_path: Path) -> None:
    question = {"ask": "listing", "after": "", "limit": 1, "folders_only": False}

    for path in (tmp_path / "nowhere", Path(__file__)):
        told = base64.b64encode(os.fsencode(path)).decode()
        assert set(folders.main({**question, "path": told})) == {"errno", "reason"}


def test_a_path_that_does_not_exist_is_judged_by_its_nearest_existing_folder(tmp_path: Path) -> None:
    found = folders.probe(os.fsencode(tmp_path / "new" / "repository"))

    assert (found["exists"], found["writable"], found["repository"]) == (False, True, None)
    assert found["free_bytes"] > 0


@pytest.mark.parametrize(
    "config",
    ["", "no ini", "[repository]\nversion = 7\n", "[repository\n", "[other]\nversion = 1\n", "[repository]\nversion"],
)
def test_a_config_of_something_else_is_not_a_repository(tmp_path: Path, config: str) -> None:
    (tmp_path / "config").write_text(config)

    assert folders.probe(os.fsencode(tmp_path))["repository"] is None


def test_the_key_of_a_repository_never_leaves_its_file(tmp_path: Path) -> None:
    config = "[repository]\nversion = 1\nid = ab12\nkey = c2VjcmV0\n\tbW9yZQ==\n"
    (tmp_path / "config").write_text(config)

    found = folders.probe(os.fsencode(tmp_path))

    assert found["repository"] == {"engine_version": 1, "engine_id": "ab12", "encryption": "repokey"}
    assert "c2VjcmV0" not in str(found)
