"""The text format of Prometheus (0.0.4), written from plain values."""

import math
from collections.abc import Iterable
from dataclasses import field
from typing import Literal

from backup_engine.frozen import frozen
from holdfast.kit.text import LONGEST_SHOWN, printable

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Kind = Literal["counter", "gauge", "histogram"]


@frozen
class Family:
    """All series with one name."""

    name: str
    kind: Kind
    about: str
    lines: list[str] = field(default_factory=list)

    def add(self, value: float, *labels: str, suffix: str = "") -> None:
        """Add a series. Labels come from `label`."""
        inside = f"{{{','.join(labels)}}}" if labels else ""
        shown = value if type(value) is int else number(value)
        self.lines.append(f"{self.name}{suffix}{inside} {shown}")

    def add_series(self, label_: str, line_ends: Iterable[str]) -> None:
        """Add series for one label. The line ends come from `line_end`, and labels can share them."""
        begin = f"{self.name}{{{label_},"
        self.lines.extend([begin + end for end in line_ends])


def line_end(value: float, *labels: str) -> str:
    """The end of a series' line, after its first label."""
    return f"{','.join(labels)}}} {number(value)}"


def text_of(families: Iterable[Family]) -> str:
    """The whole text. Families without series are included."""
    pieces: list[str] = []
    for family in families:
        pieces.append(f"# HELP {family.name} {family.about}")
        pieces.append(f"# TYPE {family.name} {family.kind}")
        pieces += family.lines
    return "\n".join(pieces) + "\n"


def label(name: str, value: str) -> str:
    """Given a label and its value, return both in the text format; any value works."""
    return f'{name}="{_escaped(printable(value))}"'


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def distinct(label_name: str, names: Iterable[tuple[int, str]]) -> dict[int, str]:
    """Return one label for each id. Where names read the same, the id is added to keep the labels distinct."""
    found: dict[int, str] = {}
    taken: set[str] = set()
    for identifier, name in names:
        text = label(label_name, name)
        if text in taken:
            text = label(label_name, f"{name[: LONGEST_SHOWN - 24]} #{identifier}")
        taken.add(text)
        found[identifier] = text
    return found


def number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value):
        return repr(value)
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"
