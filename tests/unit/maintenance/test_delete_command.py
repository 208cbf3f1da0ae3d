"""Deleting several archives in one engine run."""

from backup_engine.borg1 import delete_archive
from backup_engine.requests import DeleteArchiveRequest, RepositoryLocation


def test_the_first_archive_hides_placeholders_and_the_others_are_as_they_are() -> None:
    request = DeleteArchiveRequest("a{b}", ("c{d}", "-e"))

    arguments = delete_archive.command(RepositoryLocation("/r"), request, 5)

    assert arguments[arguments.index("--") + 1 :] == ("/r::a{{b}}", "c{d}", "-e")
