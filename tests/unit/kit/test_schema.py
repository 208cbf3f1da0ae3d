"""Answers made from objects that have their values."""

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


def test_an_answer_takes_the_fields_that_it_has_and_nothing_else() -> None:
    assert Answer.from_row(Row(3, "etc")).model_dump() == {"id": 3, "name": "etc"}


def test_values_that_are_given_come_before_those_of_the_object() -> None:
    assert LongAnswer.from_row(Row(3, "etc"), name="other", size=7).model_dump() == {
        "id": 3,
        "name": "other",
        "size": 7,
    }


def test_a_field_that_neither_has_is_an_error() -> None:
    with pytest.raises(AttributeError):
        LongAnswer.from_row(Row(3, "etc"))
