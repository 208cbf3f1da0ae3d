"""Response models created from objects with matching fields."""

from dataclasses import dataclass

import pytest

from holdfast.kit.schema import Schema


@dataclass
class Row:
    id: int
    name: str
    secret: str = "hidden"


class Answer(Schema):
    id: int
    name: str


class LongAnswer(Answer):
    size: int


def test_a_response_takes_only_its_own_fields_from_the_object() -> None:
    assert Answer.from_row(Row(3, "etc")).model_dump() == {"id": 3, "name": "etc"}


def test_explicit_values_take_precedence_over_those_of_the_object() -> None:
    assert LongAnswer.from_row(Row(3, "etc"), name="other", size=7).model_dump() == {
        "id": 3,
        "name": "other",
        "size": 7,
    }


def test_a_field_that_is_neither_given_nor_in_the_object_is_an_error() -> None:
    with pytest.raises(AttributeError):
        LongAnswer.from_row(Row(3, "etc"))
