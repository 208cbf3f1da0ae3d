"""The options for the archives that a prune keeps."""

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any

import typer

Rules = Mapping[str, str | int]
"""The rules that were given, as the service names them."""
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


def with_rules(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each rule, in the place of its parameter `rules`."""

    @functools.wraps(command)
    def run(**values: Any) -> None:
        rules = {name: value for name in OPTIONS if (value := values.pop(name)) is not None}
        command(rules=rules, **values)

    parameters = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name == "rules":
            parameters += [
                inspect.Parameter(name, parameter.kind, default=None, annotation=option)
                for name, option in OPTIONS.items()
            ]
        else:
            parameters.append(parameter)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
