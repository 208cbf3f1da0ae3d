"""docs/errors.md: every error key that the code can return, with what happened, what is safe and what to do."""

from collections import Counter

from holdfast.entry.client.job_summaries import WHAT_TO_DO
from tools import errors_document

ROWS = [fact for facts in errors_document.features().values() for fact in facts]


def test_every_error_key_of_the_code_has_a_row_with_its_status() -> None:
    assert errors_document.faults() == []


def test_the_document_is_generated_from_the_current_rows() -> None:
    made = errors_document.document(errors_document.features())

    assert errors_document.DOCUMENT.read_text() == made, "run tools/errors_document.py and commit docs/errors.md"


def test_the_web_ui_has_the_advice_of_the_current_rows() -> None:
    made = errors_document.advice(errors_document.features())

    assert errors_document.ADVICE.read_text() == made, "run tools/errors_document.py and commit web/src/api/advice.json"


def test_each_key_has_one_row_and_each_part_of_it_is_a_sentence() -> None:
    assert [key for key, count in Counter(fact.key for fact in ROWS).items() if count > 1] == []
    parts = [(fact.key, part) for fact in ROWS for part in (fact.happened, fact.safe, fact.to_do)]
    assert [(key, part) for key, part in parts if len(part) < 10 or not part.endswith(".")] == []


def test_the_scan_recognises_each_way_to_return_a_key() -> None:
    seen = errors_document.answered().statuses

    assert seen["packages.not_found"] == {404}  # a constructor with the key
    assert seen["wipe.preview_stale"] == {409}  # a pair of key and sentence, spread
    assert seen["plan.feature_not_available"] == {403}  # a class with its own key
    assert {"engine.damaged", "ssh.closed", "prune.would_remove_everything"} <= seen.keys()


def test_the_advice_of_the_command_line_refers_to_existing_keys() -> None:
    assert WHAT_TO_DO.keys() <= {fact.key for fact in ROWS}
