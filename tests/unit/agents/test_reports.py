"""An agent's report of an end in the kernel's terms, without values that a store cannot hold."""

from typing import Any

import pytest

from backup_engine.redact import Redactor
from holdfast.agents.reports import cleaned_value, report_of
from holdfast.agents.schemas import CanceledBody, CompleteBody, FailBody, ResultBody
from holdfast.operations.status import Status

PLAIN = Redactor([])


@pytest.mark.parametrize(
    ("code", "status"),
    [(0, Status.COMPLETED), *((code, Status.COMPLETED_WITH_WARNINGS) for code in (1, 2, 100, 127, 128))],
)
def test_a_completion_has_warnings_unless_its_return_code_is_zero(code: int, status: Status) -> None:
    assert report_of(CompleteBody(result=ResultBody(return_code=code)), None, PLAIN).status is status


def test_a_failure_without_a_message_gets_that_of_its_key() -> None:
    report = report_of(FailBody(error_message=" ", error_key="engine.disk_full", return_code=2), None, PLAIN)

    assert (report.status, report.error_key, report.return_code) == (Status.FAILED, "engine.disk_full", 2)
    assert report.error_message is not None
    assert "No space" in report.error_message


def test_a_cancellation_reports_its_return_code_if_there_is_one() -> None:
    assert report_of(CanceledBody(return_code=143), None, PLAIN).return_code == 143
    assert report_of(CanceledBody(), None, PLAIN).status is Status.CANCELLED


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        ({"a": float("nan"), "b": [float("inf"), 1.5]}, {"a": None, "b": [None, 1.5]}),
        ({"nul\0": "x\0y"}, {"nul\N{REPLACEMENT CHARACTER}": "x\N{REPLACEMENT CHARACTER}y"}),
        ({"key secret": ["my secret"]}, {"key ***": ["my ***"]}),
        ([True, None, 10**30], [True, None, 10**30]),
    ],
)
def test_values_are_cleaned_for_every_store(value: Any, cleaned: Any) -> None:
    assert cleaned_value(value, Redactor(["secret"])) == cleaned


def test_a_deeply_nested_value_is_cut() -> None:
    value: Any = "deep"
    for _ in range(500):
        value = [value]

    assert "deep" not in str(cleaned_value(value, PLAIN))
