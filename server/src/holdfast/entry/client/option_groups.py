"""Options shared by several commands, declared once as a group."""

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

Given = Mapping[str, Any]
"""The given options of a group, by name."""
NOTHING: Given = MappingProxyType({})
Command = Callable[..., None]


def with_options(**groups: Mapping[str, Any]) -> Callable[[Command], Command]:
    """Replace each parameter named after a group with the options of that group."""

    def widen(command: Command) -> Command:
        @functools.wraps(command)
        def run(**values: Any) -> None:
            for group, options in groups.items():
                chosen = {name: values.pop(name) for name in options}
                values[group] = {name: value for name, value in chosen.items() if value is not None and value != []}
            command(**values)

        parameters = [
            option
            for parameter in inspect.signature(command).parameters.values()
            for option in _options(parameter, groups.get(parameter.name))
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return widen


def _options(parameter: inspect.Parameter, group: Mapping[str, Any] | None) -> list[inspect.Parameter]:
    if group is None:
        return [parameter]
    return [inspect.Parameter(name, parameter.kind, default=None, annotation=option) for name, option in group.items()]
