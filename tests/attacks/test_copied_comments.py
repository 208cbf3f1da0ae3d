"""A comment that contains another backup's key, copied from an archive or written on purpose."""

from typing import Any

import pytest

from backup_engine.requests import RepositoryLocation
from backup_jobs.bodies import BODIES, attempt
from backup_jobs.endings import Completed, Failed
from backup_jobs.work import Work
from backup_protocol import BackupBlock, JobKind
from tests.support.scripted_host import NoSources, ScriptedHost, an_engine, listing

FAILING = 2


def archive_with(comment: str) -> dict[str, Any]:
    found = listing("earlier")
    found["archives"][0]["comment"] = comment
    return found


@pytest.mark.parametrize(
    ("in_the_archive", "is_its_own"),
    [
        ("nightly holdfast:mine", True),
        ("nightly holdfast:theirs", False),
        ("holdfast:mine holdfast:theirs", False),
        ("holdfast:mine and more words", False),
    ],
)
def test_a_failed_backup_is_not_completed_by_an_archive_whose_comment_was_copied_from_it(
    in_the_archive: str, is_its_own: bool
) -> None:
    host = ScriptedHost({"create": FAILING, "evidence": archive_with(in_the_archive)})
    comment = "nightly holdfast:theirs holdfast:mine"  # the user's comment, and the key of this backup
    block = BackupBlock(archive_name="one", source_paths=("/srv",), compression="lz4", comment=comment)

    work = Work(host, an_engine(), RepositoryLocation("/srv/repository"), block, NoSources())
    ended = attempt(BODIES[JobKind.BACKUP_CREATE], work)

    assert isinstance(ended, Completed if is_its_own else Failed)
    assert "delete" not in " ".join(host.steps)
