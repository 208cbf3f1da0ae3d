"""What the headers of a request for a file select."""

import random

import pytest

from holdfast.downloads.conditions import RequestConditions
from holdfast.errors import RangeNotSatisfiable

TAG = '"tag"'


@pytest.mark.parametrize(
    ("text", "size", "part"),
    [
        (None, 10, None),
        ("bytes=0-0", 10, (0, 1)),
        ("bytes=0-9", 10, (0, 10)),
        ("bytes=0-99", 10, (0, 10)),
        ("bytes=9-", 10, (9, 10)),
        ("bytes=-3", 10, (7, 10)),
        ("bytes=-99", 10, (0, 10)),
        ("bytes = 2-3", 10, (2, 4)),
        ("bytes=3-2", 10, None),
        ("bytes=-", 10, None),
        ("bytes=1-2,4-5", 10, None),
        ("bytes=+1-2", 10, None),
        ("bytes=\u0661-\u0662", 10, None),
        ("items=1-2", 10, None),
        ("bytes=" + "9" * 30 + "-", 10, None),
    ],
)
def test_a_single_range_selects_a_part_and_anything_else_the_whole_file(
    text: str | None, size: int, part: tuple[int, int] | None
) -> None:
    assert RequestConditions(range=text).part(size, TAG) == part


@pytest.mark.parametrize(("text", "size"), [("bytes=10-", 10), ("bytes=10-12", 10), ("bytes=-0", 10), ("bytes=0-", 0)])
def test_a_range_outside_the_file_is_refused_with_the_files_size(text: str, size: int) -> None:
    with pytest.raises(RangeNotSatisfiable) as refused:
        RequestConditions(range=text).part(size, TAG)
    assert refused.value.params == {"size": size}


def test_every_part_is_within_the_file() -> None:
    rng = random.Random(1)
    for _ in range(2000):
        size = rng.randrange(20)
        text = f"bytes={rng.choice(['', rng.randrange(25)])}-{rng.choice(['', rng.randrange(25)])}"
        try:
            part = RequestConditions(range=text).part(size, TAG)
        except RangeNotSatisfiable:
            continue
        assert part is None or 0 <= part[0] < part[1] <= size, text


@pytest.mark.parametrize(
    ("given", "known"),
    [
        (None, False),
        (TAG, True),
        ("*", True),
        (f"W/{TAG}", True),
        (f'"a", {TAG}', True),
        ('"other"', False),
        ("", False),
    ],
)
def test_if_none_match_recognises_the_tag_of_the_file(given: str | None, known: bool) -> None:
    assert RequestConditions(if_none_match=given).is_known(TAG) is known


@pytest.mark.parametrize("given", ['"other"', f"W/{TAG}", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_a_range_of_a_changed_file_selects_the_whole_file(given: str) -> None:
    assert RequestConditions(range="bytes=1-2", if_range=TAG).part(10, TAG) == (1, 3)
    assert RequestConditions(range="bytes=1-2", if_range=given).part(10, TAG) is None
