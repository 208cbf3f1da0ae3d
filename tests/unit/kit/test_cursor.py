import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import Unprocessable
from holdfast.kit import cursor

PARTS = st.one_of(
    st.integers(-(2**63) + 1, 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=30)
)


def as_cursor(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@settings(max_examples=200)
@given(st.lists(PARTS, min_size=1, max_size=4))
def test_a_cursor_decodes_to_the_values_it_was_created_from(parts: list[int | float | str]) -> None:
    assert cursor.decode(cursor.encode(*parts), *(type(part) for part in parts)) == tuple(parts)


@settings(max_examples=200)
@given(st.lists(PARTS, min_size=1, max_size=4))
def test_a_cursor_needs_no_escaping_in_a_url(parts: list[int | float | str]) -> None:
    assert set(cursor.encode(*parts)) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@settings(max_examples=300)
@given(st.text(max_size=60))
def test_any_text_is_decoded_or_refused(text: str) -> None:
    try:
        decoded = cursor.decode(text, int)
    except Unprocessable:
        return
    assert type(decoded[0]) is int


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"id": 1}, id="not a list"),
        pytest.param([], id="too short"),
        pytest.param([1, 2], id="too long"),
        pytest.param(["1"], id="text for a number"),
        pytest.param([1.0], id="a fraction for a number"),
        pytest.param([True], id="a truth for a number"),
        pytest.param([None], id="nothing"),
        pytest.param([2**63], id="more than an id can be"),
        pytest.param([-(2**63)], id="less than an id can be"),
        pytest.param([[1]], id="a list in a list"),
    ],
)
def test_a_cursor_of_another_shape_is_refused(value: object) -> None:
    with pytest.raises(Unprocessable) as refused:
        cursor.decode(as_cursor(value), int)
    assert refused.value.key == "paging.bad_cursor"


@pytest.mark.parametrize("text", ["", "=", "%%%", "é", "bm90IGpzb24", as_cursor(1)[:-1], "W" * 400])
def test_text_that_is_not_a_cursor_is_refused(text: str) -> None:
    with pytest.raises(Unprocessable):
        cursor.decode(text, int)


def test_numbers_that_are_not_finite_are_refused() -> None:
    for word in (b"[NaN]", b"[Infinity]", b"[-Infinity]"):
        with pytest.raises(Unprocessable):
            cursor.decode(base64.urlsafe_b64encode(word).decode(), float)
