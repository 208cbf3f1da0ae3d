"""The first lines of a restore's log."""

import pytest

from backup_jobs.restore.endings import dry_run_line, first_line
from backup_jobs.restore.survey import Survey


@pytest.mark.parametrize(("files", "counted"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_the_number_of_files_is_written_in_singular_or_plural(files: int, counted: str) -> None:
    found = Survey(files=files, size=7)

    assert first_line(found, "a1", "/srv") == f"Restoring {counted} (7 bytes) of a1 to /srv."
    assert dry_run_line(found, "/srv").startswith(f"Dry run: {counted} (7 bytes) would")
