"""Deleting several archives in one engine run."""

from backup_engine.borg1 import delete_archive
from backup_engine.requests import DeleteArchiveRequest, RepositoryLocation


def test_placeholders_are_escaped_in_the_first_archives_name_only() -> None:
    request = DeleteArchiveRequest("a{b}", ("c{d}", "-e"))

    arguments = delete_archive.command(RepositoryLocation("/r"), request, 5)

    assert arguments[arguments.index("--") + 1 :] == ("/r::a{{b}}", "c{d}", "-e")
