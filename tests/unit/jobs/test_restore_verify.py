"""Comparing what the engine extracted with the archive's listing."""

import os
from pathlib import Path

import pytest

from backup_engine import extraction_check
from backup_engine.events import LogMessage
from backup_engine.extraction_check import PathWarnings
from backup_engine.listing import ListedFile
from backup_jobs.restore import verify
from backup_jobs.restore.existing_files import ExistingFiles
from backup_jobs.restore.layout import Placement
from backup_jobs.restore.survey import Survey
from backup_jobs.restore.verify import Plan, Verifier, remove_rejected

LONG_AGO = 1_000_000_000_123_456_789
EVERYTHING = Placement((), contents_only=False)


def warning(message: str) -> LogMessage:
    return LogMessage("WARNING", "borg.archiver", None, message)


def verified(
    tree: Path, items: list[ListedFile], *warnings: str, target: Path | None = None, surveyed: Survey | None = None
) -> Plan:
    path_warnings = PathWarnings()
    for message in warnings:
        path_warnings.on_event(warning(message))
    existing = ExistingFiles(bytes(target or Path("/nonexistent")))
    descriptor = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return Verifier(
            descriptor, EVERYTHING, existing, (surveyed or Survey()).links_in_the_way, path_warnings
        ).verify(items)
    finally:
        os.close(descriptor)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "d").mkdir(parents=True)
    (folder / "d" / "file").write_bytes(b"12345")
    (folder / "d" / "link").symlink_to("file")
    os.link(folder / "d" / "file", folder / "d" / "hard")
    os.mkfifo(folder / "d" / "pipe")
    os.utime(folder / "d", ns=(LONG_AGO, LONG_AGO))
    return folder


LISTED = [
    ListedFile(b"d", "d", 0),
    ListedFile(b"d/file", "-", 5),
    ListedFile(b"d/link", "l", 4),
    ListedFile(b"d/hard", "-", 0, is_hard_link=True),
    ListedFile(b"d/pipe", "p", 0),
]


def test_a_tree_that_matches_its_listing_is_accepted_without_its_special_files(tree: Path) -> None:
    plan = verified(tree, LISTED)

    assert (plan.files, plan.size, plan.failed) == (3, 10, [])
    assert plan.special == [b"d/pipe"]
    assert not (tree / "d" / "pipe").exists()
    assert (tree / "d").stat().st_mtime_ns == LONG_AGO


def test_a_file_that_the_engine_left_out_is_failed(tree: Path) -> None:
    plan = verified(tree, [*LISTED, ListedFile(b"d/missing", "-", 9)])

    assert plan.failed == [(b"d/missing", extraction_check.NOT_EXTRACTED, 9)]
    assert plan.files == 3


def test_a_truncated_file_is_failed_and_not_moved(tree: Path) -> None:
    plan = verified(tree, [ListedFile(b"d/file", "-", 9000)])

    assert plan.failed == [(b"d/file", "the engine extracted 5 of 9000 bytes", 9000)]
    assert [path for path, _ in plan.removed] == [b"d/file"]


@pytest.mark.parametrize("kind", ["d", "l"])
def test_a_file_listed_as_another_type_is_failed(tree: Path, kind: str) -> None:
    assert verified(tree, [ListedFile(b"d/file", kind, 5)]).failed == [(b"d/file", extraction_check.WRONG_TYPE, 5)]


@pytest.mark.parametrize(
    "message",
    [
        "d/file: File has damaged (all-zero) chunks. Try running borg check --repair.",
        "d/file: write: [Errno 28] No space left on device",
    ],
)
def test_a_file_that_the_engine_complains_about_is_failed_with_the_engines_message(tree: Path, message: str) -> None:
    plan = verified(tree, LISTED, message)

    assert plan.failed == [(b"d/file", message.removeprefix("d/file: "), 5)]


def test_a_warning_about_a_name_that_is_not_utf8_is_matched_as_the_engine_writes_it(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/caf\xe9: x", "wb") as file:
        file.write(b"1")

    plan = verified(tmp_path, [ListedFile(b"caf\xe9: x", "-", 1)], "caf?: x: read: [Errno 5] Input/output error")

    assert plan.failed == [(b"caf\xe9: x", "read: [Errno 5] Input/output error", 1)]


@pytest.mark.parametrize(
    "message",
    [
        "d/file: attrs: [Errno 1] Operation not permitted: 'd/file'",
        "when setting extended attribute user.x: [Errno 95] Operation not supported: 'd/file'",
    ],
)
def test_a_missing_attribute_is_a_warning_and_the_file_is_moved(tree: Path, message: str) -> None:
    path_warnings = PathWarnings()
    path_warnings.on_event(warning(message))

    assert path_warnings.attributes == [message]
    assert verified(tree, LISTED, message).failed == []


def test_a_link_with_files_below_it_is_failed(tree: Path) -> None:
    plan = verified(tree, LISTED, surveyed=Survey(links_in_the_way=[b"d/link"]))

    assert plan.failed == [(b"d/link", extraction_check.LINK_IN_THE_WAY, 4)]


def test_folder_times_and_conflicts_at_the_destination_are_recorded(tree: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    (target / "d").mkdir(parents=True)
    (target / "d" / "file").touch()

    plan = verified(tree, LISTED, target=target)

    assert plan.folders == {b"d": (LONG_AGO, 0o755)}
    assert plan.conflicts == [(b"d/file", "a file already exists there")]


def test_verification_gives_up_if_too_much_is_missing(tree: Path) -> None:
    missing = [ListedFile(b"missing/%d" % number, "-", 1) for number in range(verify.MOST_FAILED + 5)]

    plan = verified(tree, missing)

    assert plan.given_up
    assert len(plan.failed) == verify.MOST_FAILED


def test_rejected_files_are_removed_repeatedly_without_changing_the_time_of_their_folder(tree: Path) -> None:
    plan = verified(tree, [*LISTED, ListedFile(b"d/file", "-", 9)])
    descriptor = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)

    for _ in range(2):
        remove_rejected(descriptor, plan)

        assert sorted(path.name for path in (tree / "d").iterdir()) == ["hard", "link"]
        assert (tree / "d").stat().st_mtime_ns == LONG_AGO
    os.close(descriptor)


def test_a_plan_survives_a_round_trip_through_json(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "target" / "d").mkdir(parents=True)
    (tmp_path / "target" / "d" / "link").touch()
    plan = verified(tree, [*LISTED, ListedFile(b"caf\xe9", "-", 1)], target=tmp_path / "target")

    assert plan.failed
    assert plan.folders
    assert plan.conflicts
    assert Plan.from_json(plan.to_json()) == plan
