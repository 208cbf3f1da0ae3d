"""What an agent reads from the listing before it restores."""

from backup_engine.listing import ListedFile
from backup_jobs.restore.existing_files import UnknownFiles
from backup_jobs.restore.layout import Placement
from backup_jobs.restore.survey import survey


def test_a_folder_that_was_backed_up_as_a_dot_is_the_destination_itself() -> None:
    found = survey(
        [ListedFile(b".", "d", 0), ListedFile(b"a", "-", 5)],
        Placement((), contents_only=False),
        UnknownFiles(),
    )

    assert (found.files, found.size, found.unsafe) == (1, 5, [])


def test_a_path_that_leads_out_or_contains_nul_is_unsafe() -> None:
    found = survey(
        [ListedFile(path, "-", 5) for path in (b"../up", b"nul\0", b"a")],
        Placement((), contents_only=False),
        UnknownFiles(),
    )

    assert (found.files, found.unsafe) == (1, [b"../up", rb"nul\0"])


def test_fifos_and_devices_are_not_counted_as_files() -> None:
    found = survey(
        [ListedFile(b"pipe", "p", 0), ListedFile(b"a", "-", 5)],
        Placement((), contents_only=False),
        UnknownFiles(),
    )

    assert (found.files, found.size) == (1, 5)
