"""The parts of the service: created once, in any order of requests, and never guessed."""

from itertools import count
from typing import Annotated

import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient

from holdfast.api.parts import Part, Parts, PartsError

NAME = Part[str]("name")
GREETING = Part[str]("greeting")


def test_a_part_is_created_when_another_needs_it_regardless_of_the_order() -> None:
    parts = Parts([GREETING.made_by(lambda known: f"Hello {known[NAME]}"), NAME.given("Ada")])

    assert parts[GREETING] == "Hello Ada"


def test_a_part_is_created_once() -> None:
    numbers = count(1)
    number = Part[int]("number")
    parts = Parts([number.made_by(lambda _parts: next(numbers))])

    parts.make_all()

    assert (parts[number], parts[number], next(numbers)) == (1, 1, 2)


def test_a_part_that_no_feature_provides_is_named() -> None:
    with pytest.raises(PartsError, match="no feature provides greeting"):
        Parts([NAME.given("Ada")])[GREETING]


def test_a_part_that_is_provided_twice_is_refused() -> None:
    with pytest.raises(PartsError, match="name is provided twice"):
        Parts([NAME.given("Ada"), NAME.given("Grace")])


def test_parts_that_depend_on_each_other_are_refused_and_named_in_order() -> None:
    parts = Parts([NAME.made_by(lambda known: known[GREETING]), GREETING.made_by(lambda known: known[NAME])])

    with pytest.raises(PartsError, match="name → greeting → name"):
        parts.make_all()


def test_a_route_receives_the_part_it_depends_on() -> None:
    app = FastAPI()
    app.parts = Parts([NAME.given("Ada")])  # type: ignore[attr-defined]

    @app.get("/")
    def read(name: Annotated[str, Depends(NAME)]) -> str:
        return name

    assert TestClient(app).get("/").json() == "Ada"
