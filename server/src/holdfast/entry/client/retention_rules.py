"""The options that determine which archives a prune keeps."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

import typer

from holdfast.entry.client.option_groups import with_options

Rules = Mapping[str, str | int]
"""The given rules, under the names that the API uses."""
NO_RULES: Rules = MappingProxyType({})


def _for(units: str) -> Any:
    return Annotated[
        int | None, typer.Option(min=0, help=f"Keep one archive per {units.removesuffix('s')}, for this many {units}.")
    ]


OPTIONS: dict[str, Any] = {
    "keep_within": Annotated[str | None, typer.Option(help="Keep all archives of this time span, such as 2d or 3w.")],
    "keep_last": Annotated[int | None, typer.Option(min=0, help="Keep this many of the newest archives.")],
    "keep_hourly": _for("hours"),
    "keep_daily": _for("days"),
    "keep_weekly": _for("weeks"),
    "keep_monthly": _for("months"),
    "keep_yearly": _for("years"),
}
with_rules = with_options(rules=OPTIONS)
"""Replaces a command's parameter `rules` with an option for each rule."""
