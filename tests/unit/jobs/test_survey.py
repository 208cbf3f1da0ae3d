"""What the listing shows before anything is written."""

from pathlib import Path

import pytest

from backup_engine.listing import ListedFile
from backup_jobs.restore.existing_files import ExistingFiles, UnknownFiles
from backup_jobs.restore.layout import Placement
from backup_jobs.restore.survey import Survey, survey

EVERYTHING = Placement((), contents_only=False)


def folder(path: bytes) -> ListedFile:
    return ListedFile(path, "d", 0)


def file(path: bytes, size: int = 1) -> ListedFile:
    return ListedFile(path, "-", size)


def link(path: bytes) -> ListedFile:
    return ListedFile(path, "l", 7)


def surveyed(items: list[ListedFile], placement: Placement = EVERYTHING, at: Path = Path("/nonexistent")) -> Survey:
    return survey(items, placement, ExistingFiles(bytes(at)))


def test_files_folders_and_bytes_are_counted() -> None:
    found = surveyed([folder(b"a"), file(b"a/b", 5), link(b"a/c"), ListedFile(b"a/d", "p", 0), file(b"a/e", 7)])

    assert (found.files, found.size, found.directories, found.special) == (3, 12, 1, 1)


@pytest.mark.parametrize("path", [b"/etc/passwd", b"../x", b"a/../../x", b"a//b", b"..", b"a/.", b"./a"])
def test_a_path_that_leads_out_is_unsafe_and_not_counted(path: bytes) -> None:
    found = surveyed([file(b"fine"), file(path)])

    assert (found.files, found.unsafe) == (1, [path])


def test_a_path_with_nul_is_unsafe_and_survives_a_round_trip_through_json() -> None:
    found = surveyed([file(b"fine"), file(b"nul\0")])

    assert (found.files, found.unsafe) == (1, [rb"nul\0"])
    assert Survey.from_json(found.to_json()) == found


def test_a_link_with_files_below_its_path_is_in_the_way() -> None:
    items = [link(b"a"), file(b"b"), file(b"a/c"), folder(b"d"), link(b"d/e"), file(b"d/e/f/g"), link(b"d/h")]

    assert surveyed(items).links_in_the_way == [b"a", b"d/e"]


def test_a_link_listed_between_the_files_below_it_is_in_the_way() -> None:
    assert surveyed([file(b"a/b"), link(b"a"), file(b"a/c")]).links_in_the_way == [b"a"]


def test_requested_paths_without_a_match_are_missing() -> None:
    placement = Placement((b"a", b"b/c", b"d"), contents_only=False)

    assert surveyed([file(b"a"), file(b"b/c/e"), file(b"dd")], placement).missing == [b"d"]


@pytest.mark.parametrize(
    ("paths", "above"),
    [
        ([b"home/user/a", b"home/user/b/c"], b"home/user"),
        ([b"home/user"], b"home"),
        ([b"home/a", b"etc/b"], b""),
        ([b"a"], b""),
    ],
)
def test_the_deepest_common_parent_folder_is_found(paths: list[bytes], above: bytes) -> None:
    assert surveyed([file(path) for path in paths]).above_all == above


def test_an_empty_archive_has_no_common_parent_folder() -> None:
    assert surveyed([]).above_all is None


def test_names_shared_by_two_folders_collide_unless_both_are_folders() -> None:
    placement = Placement((b"a", b"b"), contents_only=True)
    items = [folder(b"a"), folder(b"a/x"), file(b"a/x/1"), file(b"a/y"), folder(b"b"), folder(b"b/x"), file(b"b/x/1")]
    items += [file(b"b/z"), folder(b"b/y")]

    assert surveyed(items, placement).collisions == [b"b/x/1", b"b/y"]


def test_an_existing_file_is_a_conflict_but_a_folder_that_meets_a_folder_is_not(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "plain").touch()
    (tmp_path / "was-file").mkdir()
    items = [folder(b"folder"), file(b"folder/file"), file(b"folder/new"), link(b"link"), folder(b"plain")]
    items += [file(b"plain/below"), file(b"was-file"), file(b"link/below"), file(b"new/file")]

    found = surveyed(items, at=tmp_path)

    assert found.conflicts == [
        (b"folder/file", "a file already exists there"),
        (b"link", "a symbolic link already exists there"),
        (b"plain", "something other than a folder exists where a folder is needed"),
        (b"plain/below", "something other than a folder exists where a folder is needed"),
        (b"was-file", "a folder already exists there"),
        (b"link/below", "something other than a folder exists where a folder is needed"),
    ]
    assert found.conflict_count == len(found.conflicts)


def test_a_destination_that_cannot_be_inspected_has_no_conflicts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    items = [file(b"file", 5), ListedFile(b"pipe", "p", 0)]

    assert surveyed(items, at=tmp_path).conflict_count == 1
    unknown = survey(items, EVERYTHING, UnknownFiles())
    assert (unknown.files, unknown.size, unknown.special, unknown.conflict_count) == (1, 5, 1, 0)


def test_only_the_first_thousand_conflicts_are_listed_but_all_are_counted(tmp_path: Path) -> None:
    (tmp_path / "blocked").touch()

    found = surveyed([file(b"blocked/%d" % number) for number in range(1500)], at=tmp_path)

    assert (len(found.conflicts), found.conflict_count) == (1000, 1500)


def test_a_survey_survives_a_round_trip_through_json(tmp_path: Path) -> None:
    (tmp_path / "b").touch()
    items = [link(b"caf\xe9"), file(b"caf\xe9/x", 3), file(b"../up"), file(b"b")]
    found = surveyed(items, Placement((b"caf\xe9", b"caf\xe8", b"b"), contents_only=True), tmp_path)

    assert found.missing
    assert found.unsafe
    assert found.links_in_the_way
    assert found.conflicts
    assert Survey.from_json(found.to_json()) == found


def test_a_folder_that_was_backed_up_as_a_dot_is_the_destination_itself() -> None:
    """As `borg create … .` stores it. A file with this name would be unsafe."""
    found = surveyed([folder(b"."), file(b"a", 5)])

    assert (found.files, found.size, found.unsafe) == (1, 5, [])
    assert surveyed([file(b".")]).unsafe == [b"."]
