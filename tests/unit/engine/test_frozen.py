"""Values behave like the standard library's frozen dataclasses with slots; defining them is just cheaper."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from backup_engine.frozen import frozen


@frozen
class Point:
    """A place."""

    x: int
    y: int = 2
    notes: list[str] = field(default_factory=list, compare=False)
    secret: str = field(default="", repr=False)


@frozen
class Named(Point):
    name: str = "somewhere"


@frozen
class Sorted:
    words: tuple[str, ...]
    first: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", min(self.words))


@frozen
class Quiet:
    token: str

    def __repr__(self) -> str:
        return "Quiet()"


@frozen
class Empty:
    pass


def both(define: Callable[[Callable[[type], type]], type]) -> tuple[Any, Any]:
    """The same class twice: decorated with ours, and with the standard library's."""
    return define(frozen), define(dataclass(frozen=True, slots=True))


def pair(decorate: Callable[[type], type]) -> type:
    @decorate
    class Pair:
        left: int
        right: str = "r"
        more: dict[str, int] = field(default_factory=dict)

    return Pair


def test_a_value_is_created_compared_and_shown_like_a_standard_dataclass() -> None:
    ours, standard = both(pair)

    assert repr(ours(1, more={"a": 2})) == repr(standard(1, more={"a": 2}))
    assert ours(1) == ours(1) != ours(2)
    assert dataclasses.asdict(ours(1, "b")) == dataclasses.asdict(standard(1, "b"))
    assert ours.__match_args__ == standard.__match_args__
    assert ours.__slots__ == standard.__slots__


@pytest.mark.parametrize("given", [(), (1, "b", {}, "too many")], ids=["too few", "too many"])
def test_a_value_refuses_missing_surplus_and_unknown_arguments(given: tuple[Any, ...]) -> None:
    ours, standard = both(pair)

    for made in (ours, standard):
        with pytest.raises(TypeError):
            made(*given)
        with pytest.raises(TypeError):
            made(1, unknown=2)


def test_a_value_cannot_be_changed() -> None:
    point = Point(1)

    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.y  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.other = 3  # type: ignore[attr-defined]
    assert point == Point(1, 2)


def test_equal_values_have_equal_hashes_and_excluded_fields_do_not_count() -> None:
    assert Point(1, notes=["a"]) == Point(1, notes=["b"])
    assert {Point(1, notes=["a"]), Point(1, notes=["b"])} == {Point(1)}
    assert Point(1) != (1, 2)
    assert Point(1) != Named(1)
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())


def test_each_value_gets_its_own_default() -> None:
    assert Point(1).notes is not Point(1).notes


def test_secrets_are_not_shown() -> None:
    assert "hidden" not in repr(Point(1, secret="hidden"))
    assert repr(Quiet("hidden")) == "Quiet()"


def test_a_value_inherits_fields_and_keeps_its_docstring() -> None:
    assert Named(1, name="here") == Named(x=1, y=2, name="here")
    assert repr(Named(1)) == "Named(x=1, y=2, notes=[], name='somewhere')"
    assert Point.__doc__ == "A place."
    assert Empty.__doc__ is None


def test_a_field_computed_on_creation_is_recomputed_on_replace() -> None:
    assert Sorted(("b", "a")).first == "a"
    assert dataclasses.replace(Sorted(("b", "a")), words=("c",)).first == "c"


@pytest.mark.parametrize("value", [Point(1, 5, ["n"], "s"), Named(1), Sorted(("b", "a")), Quiet("t"), Empty()])
def test_a_value_can_be_copied_replaced_and_pickled(value: Any) -> None:
    assert copy.copy(value) == value
    assert copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value
    assert dataclasses.replace(value) == value
