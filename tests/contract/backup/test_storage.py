"""The free space on the disk of a repository, measured during each backup."""

import os

from tests.support.running import Running
from tests.support.scraped import scraped, wait_for_series

FREE = "holdfast_repository_storage_free_bytes"
PRECISION = 0.2
"""Other processes write to the same disk."""


def test_a_backup_measures_the_free_space_on_the_disk_of_its_repository(running: Running) -> None:
    repository = running.known.repository
    free = wait_for_series(running.admin, FREE, repository=repository["name"])
    disk = os.statvfs(repository["path"])

    assert abs(free - disk.f_bavail * disk.f_frsize) < PRECISION * disk.f_blocks * disk.f_frsize


def test_finished_jobs_are_counted(running: Running) -> None:
    assert running.known
    ended = wait_for_series(running.admin, "holdfast_operations_finished_total", kind="backup", status="completed")

    assert ended >= 1
    assert scraped(running.admin, "holdfast_operation_duration_seconds_count", kind="backup") is not None
