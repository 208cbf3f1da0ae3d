"""An ssh machine may respond to short queries with anything: that never fills memory or causes an internal error."""

import tracemalloc

import pytest

from backup_engine.command import Machine
from backup_jobs.restore.layout import Placement
from backup_jobs.restore.survey import Survey
from holdfast.errors import Unprocessable
from holdfast.execution.ssh import Answer
from holdfast.restore.existing_files_there import ExistingFilesThere
from tests.support.peak import MIB

BOUND = 64 * MIB


@pytest.mark.parametrize(
    "output",
    ["[" + "[]," * 5_000_000 + "[]]", "\n" * (16 * MIB), "[" * 1_000_000, "x\n" * (8 * MIB)],
    ids=["lists", "empty lines", "nested", "lines"],
)
def test_a_response_of_many_small_values_takes_little_memory(output: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r".*"):
            Answer(0, output, "").document()
        assert tracemalloc.get_traced_memory()[1] < BOUND
    finally:
        tracemalloc.stop()


def test_the_last_line_is_the_response() -> None:
    assert Answer(0, 'Welcome!\n{"a": [1]}\n', "").document() == {"a": [1]}


@pytest.mark.parametrize(
    "answer",
    [
        *("[]", "{}x", "5", '"link"', '{"count": "many", "found": []}', '{"count": 1, "found": [["a"]]}'),
        *('{"count": 1, "found": [["???", "there"]]}', '{"count": -1}', '{"link": []}', '{"found": {}}'),
    ],
)
def test_an_invalid_response_about_a_destination_is_refused_with_a_clear_error(answer: str) -> None:
    program = ("/bin/sh", "-c", f"cat > /dev/null; printf '%s\\n' '{answer}'", "sh")
    there = ExistingFilesThere(
        Machine("there", program, "/usr/bin/python3"), Placement((), contents_only=False), b"/srv"
    )

    with pytest.raises(Unprocessable) as refused:
        there.add_to(Survey())

    assert refused.value.key == "restore.not_answered"
