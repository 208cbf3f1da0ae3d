"""Labels: `name=value` pairs used to select repositories."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import Query

from holdfast.kit.fields import PlainText

LabelFilter = Annotated[
    Sequence[Annotated[str, PlainText(1, 261)]],
    Query(max_length=50, description="Only repositories with this label, as `name=value` or `name`. May be repeated."),
]


def parse(texts: Sequence[str]) -> dict[str, str | None]:
    """Given `name=value` and `name` texts, return the wanted value of each label; None: any value."""
    parts = (text.partition("=") for text in texts)
    return {name: value if equals else None for name, equals, value in parts}


def matches(wanted: Mapping[str, str | None], labels: Mapping[str, str] | None) -> bool:
    """Whether the labels include all wanted ones."""
    known = labels or {}
    return all(name in known and value in (None, known[name]) for name, value in wanted.items())
