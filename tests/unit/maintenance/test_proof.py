"""What counts as proven: never more than the engine has read and not complained about."""

import pytest

from backup_engine.events import Event, LogMessage, ProgressPercent
from holdfast.maintenance.file_records import FileRecord
from holdfast.maintenance.proof import MOST_PROBLEMS, Proof

ENTRIES = [
    FileRecord("drwxr-xr-x", 0, "d"),
    FileRecord("-rw-r--r--", 10, "d/a"),
    FileRecord("hrw-r--r--", 0, "d/hard"),
    FileRecord("-rw-r--r--", 20, "d/b"),
]


def reads(path: str) -> Event:
    return LogMessage("INFO", "borg.output.list", None, path)


def warns(message: str) -> Event:
    return LogMessage("WARNING", "borg.archiver", None, message)


def fails(message: str) -> Event:
    return LogMessage("ERROR", "borg.archiver", "IntegrityError", message)


def heard(*events: Event, well: bool) -> Proof:
    proof = Proof(ENTRIES)
    for event in events:
        proof.on_event(event)
    proof.end(well=well)
    return proof


def test_a_successful_run_proves_every_file_it_has_read() -> None:
    proof = heard(*(reads(entry.path) for entry in ENTRIES), well=True)

    assert (proof.files, proof.bytes, proof.entries, proof.problem_count) == (2, 30, 4, 0)


def test_the_last_entry_of_an_aborted_run_is_not_proven() -> None:
    proof = heard(reads("d"), reads("d/a"), reads("d/hard"), reads("d/b"), well=False)

    assert (proof.files, proof.bytes, proof.entries) == (1, 10, 3)


def test_a_file_that_the_engine_complains_about_is_not_proven() -> None:
    complaint = warns("d/a: Size inconsistency detected")
    proof = heard(reads("d"), reads("d/a"), complaint, reads("d/hard"), reads("d/b"), well=True)

    assert (proof.files, proof.bytes) == (1, 20)
    assert proof.problems == [{"path": "d/a", "message": "Size inconsistency detected"}]


def test_an_error_and_its_traceback_count_as_one_problem() -> None:
    proof = heard(reads("d"), reads("d/a"), fails("Data integrity error"), fails("Traceback\n  ..."), well=False)

    assert proof.problems == [{"path": "d/a", "message": "Data integrity error"}]
    assert proof.files == 0


def test_an_error_before_the_first_entry_belongs_to_no_path() -> None:
    proof = heard(fails("Data integrity error"), well=False)

    assert proof.problems == [{"path": None, "message": "Data integrity error"}]


def test_nothing_is_proven_once_the_engine_deviates_from_the_listing() -> None:
    proof = heard(reads("d"), reads("d/b"), reads("d/a"), reads("d/hard"), well=True)

    assert (proof.files, proof.bytes) == (0, 0)
    assert proof.problems[0]["path"] == "d/b"


def test_an_unread_entry_of_a_successful_run_is_a_problem() -> None:
    proof = heard(reads("d"), reads("d/a"), reads("d/hard"), well=True)

    assert proof.files == 1
    assert [problem["path"] for problem in proof.problems] == ["d/b"]


def test_more_entries_than_listed_are_a_problem() -> None:
    proof = heard(*(reads(entry.path) for entry in ENTRIES), reads("d/new"), well=True)

    assert proof.problem_count == 1
    assert (proof.files, proof.bytes) == (2, 30)


def test_a_pattern_that_never_matched_is_not_attributed_to_the_previous_file() -> None:
    proof = heard(*(reads(entry.path) for entry in ENTRIES), warns("Include pattern 'x y' never matched."), well=True)

    assert proof.never_matched == ["x y"]
    assert (proof.files, proof.problem_count) == (2, 0)


def test_progress_and_information_neither_prove_anything_nor_count_as_problems() -> None:
    proof = heard(
        reads("d"),
        ProgressPercent(msgid="extract", current=1, total=2),
        LogMessage("INFO", "borg.archive", None, "hello"),
        well=False,
    )

    assert (proof.entries, proof.problem_count) == (0, 0)


@pytest.mark.parametrize("number", [MOST_PROBLEMS, MOST_PROBLEMS + 500])
def test_problems_are_counted_beyond_the_number_that_is_kept(number: int) -> None:
    proof = heard(reads("d"), *(warns(f"d: {count}") for count in range(number)), well=True)

    assert proof.problem_count >= number
    assert len(proof.problems) == MOST_PROBLEMS


def test_entries_that_the_engine_marks_as_skipped_are_not_proven() -> None:
    proof = Proof([ENTRIES[1], ENTRIES[3]], marked=True)
    for told in ("- d", "+ d/a", "- d/hard", "+ d/b"):
        proof.on_event(reads(told))
    proof.end(well=True)

    assert (proof.files, proof.bytes, proof.problem_count) == (2, 30, 0)


def test_a_requested_entry_that_the_engine_skips_is_a_problem() -> None:
    proof = Proof([ENTRIES[1], ENTRIES[3]], marked=True)
    for told in ("+ d/a", "- d/b"):
        proof.on_event(reads(told))
    proof.end(well=True)

    assert (proof.files, proof.problem_count) == (1, 1)
