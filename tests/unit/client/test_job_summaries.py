"""The summary of a finished job describes what it did."""

from typing import Any

import pytest

from holdfast.entry.client.exit_codes import of_job
from holdfast.entry.client.job_summaries import DONE, details, summary

MEGABYTE = 1_000_000


def ended(kind: str, status: str = "completed", **more: Any) -> dict[str, Any]:
    return {
        "id": 12,
        "kind": kind,
        "status": status,
        "repository": "etc",
        "package_name": None,
        "archive_name": "etc-1",
        "duration_seconds": 12.0,
        "error_key": None,
        "error_message": None,
        "skip_reason": None,
        "warnings": [],
        "result": None,
        **more,
    }


BACKUP = {"stats": {"nfiles": 1204, "original_size": 3240 * MEGABYTE, "deduplicated_size": 41 * MEGABYTE}}


@pytest.mark.parametrize(
    ("operation", "sentence"),
    [
        (
            ended("backup", result=BACKUP),
            "etc: backed up 1,204 files, 3.2 GB (new: 41.0 MB) in 12 s, 270.0 MB/s; archive etc-1.",
        ),
        (
            ended("restore", result={"files_restored": 41, "bytes_restored": 12 * MEGABYTE, "files_skipped": 1}),
            "etc: restored 41 files, 12.0 MB in 12 s, 1.0 MB/s; skipped 1 that exists.",
        ),
        (
            ended("restore", result={"dry_run": True, "files": 3, "bytes": 5, "conflict_count": 2}),
            "etc: would restore 3 files, 5 B; 2 already exist.",
        ),
        (ended("check", result={"problem_count": 0}), "etc: checked in 12 s: no problems found."),
        (
            ended("check", "completed_with_warnings", result={"problem_count": 2, "complete": False}),
            "etc: checked in 12 s: 2 problems found; only partly; the next check continues there.",
        ),
        (
            ended("prune", result={"pruned_count": 3, "kept_count": 7}),
            "etc: removed 3 archives, kept 7 in 12 s; reclaim the space with: holdfast compact etc",
        ),
        (ended("compact", result={"freed_bytes": 5 * MEGABYTE}), "etc: compacted in 12 s; freed 5.0 MB."),
        (
            ended("restore_check", result={"files_proven": 100, "files_in_archive": 900, "bytes_proven": 5}),
            "etc: read back 100 files of 900 in etc-1, 5 B in 12 s: all can be restored.",
        ),
        (
            ended("wipe", result={"deleted_count": 1, "remaining_count": 0, "freed_bytes": 7}),
            "etc: deleted 1 archive in 12 s; freed 7 B.",
        ),
        (
            ended(
                "sync",
                result={
                    "source_files": 9,
                    "source_bytes": 12 * MEGABYTE,
                    "transferred_bytes": 0,
                    "destination": "nas:etc",
                    "verified": True,
                    "verified_hashes": False,
                },
            ),
            "etc: mirrored 9 files, 12.0 MB (sent: 0 B) in 12 s to nas:etc; verified by name and size only.",
        ),
        (
            ended("backup", "failed", error_key="engine.locked", error_message="It is locked."),
            "etc: backup failed: It is locked. (engine.locked)",
        ),
        (ended("backup", "cancelled"), "etc: backup was cancelled after 12 s."),
        (ended("something_new"), "etc: something new done after 12 s."),
    ],
)
def test_a_finished_job_is_summarised_in_one_sentence(operation: dict[str, Any], sentence: str) -> None:
    assert summary(operation) == sentence


@pytest.mark.parametrize("kind", sorted(DONE))
def test_a_result_without_details_does_not_break_the_sentence(kind: str) -> None:
    assert summary(ended(kind)).startswith("etc: ")
    assert summary(ended(kind, result={})) != "etc: completed."


def test_the_first_warnings_are_shown_and_the_others_counted() -> None:
    warnings = [{"path": f"/f{number}", "message": f"/f{number}: changed"} for number in range(10)]
    lines = details(ended("backup", "completed_with_warnings", warnings=warnings, result={"warning_count": 50}))

    assert lines[0] == "50 warnings:"
    assert lines[1:4] == ["  /f0: changed", "  /f1: changed", "  /f2: changed"]
    assert lines[4] == "  and 47 more: holdfast ops show 12"


def test_skipped_files_are_named() -> None:
    skipped = [{"path": "etc/hosts", "reason": "kept the existing file"}]
    lines = details(ended("restore", result={"files_skipped": 1, "skipped": skipped}))

    assert lines == ["skipped:", "  etc/hosts: kept the existing file"]


def test_a_failure_shows_what_to_do() -> None:
    lines = details(ended("backup", "failed", error_key="engine.passphrase_wrong", error_message="Wrong."))

    assert lines == ["Enter the correct passphrase: holdfast repos change etc --passphrase"]


def test_the_exit_code_reflects_how_a_job_ended() -> None:
    assert [of_job(status) for status in ("completed", "completed_with_warnings", "failed", "cancelled")] == [
        0,
        7,
        1,
        1,
    ]
