"""The end of a log, and the next line that contains a text."""

from typing import Any

import pytest

from tests.contract.fields import error_of
from tests.support.running import Running


def logs(running: Running, **params: Any) -> dict[str, Any]:
    answer = running.admin.get(f"/api/operations/{running.warned}/logs", params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_tail_of_a_log_is_its_last_lines(running: Running) -> None:
    lines = running.admin.log_lines(running.warned)

    end = logs(running, tail=3)

    assert [line["content"] for line in end["lines"]] == lines[-3:]
    assert end["lines"][-1]["line_number"] == end["log_lines"] == len(lines)
    assert len(logs(running, tail=5000)["lines"]) == len(lines)


def test_each_match_is_found_once_by_resuming_after_the_previous_one(running: Running) -> None:
    lines = running.admin.log_lines(running.warned)
    wanted = [number for number, line in enumerate(lines, 1) if "missing" in line.lower()]

    found, offset = [], 0
    while (page := logs(running, find="MISSING", offset=offset, limit=1))["next_match"] is not None:
        assert page["lines"] == [{"line_number": page["next_match"], "content": lines[page["next_match"] - 1]}]
        found.append(page["next_match"])
        offset = page["next_match"]

    assert found == wanted
    assert len(found) >= 40
    assert (page["lines"], page["searched_to"]) == ([], len(lines))


@pytest.mark.parametrize(
    "params", [{"tail": 0}, {"tail": 5001}, {"find": ""}, {"find": "a" * 201}, {"tail": 1, "offset": 1}]
)
def test_invalid_log_parameters_are_refused_with_422(running: Running, params: dict[str, Any]) -> None:
    answer = running.admin.get(f"/api/operations/{running.warned}/logs", params=params)

    assert answer.status_code == 422
    if "offset" in params:
        assert error_of(answer) == (422, "logs.contradiction")


def test_a_user_without_rights_may_not_search_a_log(running: Running) -> None:
    answer = running.stranger.get(f"/api/operations/{running.warned}/logs", params={"find": "e"})

    assert error_of(answer) == (404, "operations.not_found")
