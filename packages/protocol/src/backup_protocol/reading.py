"""Convert messages from and to JSON values. Fields of newer versions are ignored; errors name the field."""

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Message = TypeVar("Message")


class Malformed(ValueError):
    """The value is not a valid message. The text names the field, never its value."""


def read(message: type[Message], value: object) -> Message:
    """Parse a JSON object as a message of this type. Raise Malformed if it is not one."""
    return _read_object(message, value, message.__name__)


def write(message: Any) -> dict[str, Any]:
    """Return a message as a JSON object without None values."""
    return {
        field.name: _written(value) for field in fields(message) if (value := getattr(message, field.name)) is not None
    }


def _written(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return write(value)
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, tuple | list):
        return [_written(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _written(item) for key, item in value.items()}
    return value


@cache
def _types(message: Any) -> dict[str, Any]:
    return get_type_hints(message)


def _read_object(message: type[Message], value: object, where: str) -> Message:
    if not isinstance(value, Mapping):
        raise Malformed(f"{where} must be an object")
    any_message: Any = message
    expected = _types(any_message)
    found: dict[str, Any] = {}
    for field in fields(any_message):
        if field.name in value:
            found[field.name] = _read(expected[field.name], value[field.name], f"{where}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise Malformed(f"{where}.{field.name} is missing")
    return message(**found)


def _read(expected: Any, value: object, where: str) -> Any:
    if expected is Any:
        return value
    origin = get_origin(expected)
    if origin in (Union, types.UnionType):
        return _read_union(get_args(expected), value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise Malformed(f"{where} must be a list")
        return tuple(_read(get_args(expected)[0], item, f"{where}[{index}]") for index, item in enumerate(value))
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise Malformed(f"{where} must be an object")
        return {str(key): _read(get_args(expected)[1], item, f"{where}.{key}") for key, item in value.items()}
    if is_dataclass(expected):
        return _read_object(expected, value, where)  # type: ignore[arg-type]
    return _read_plain(expected, value, where)


def _read_union(choices: tuple[Any, ...], value: object, where: str) -> Any:
    if value is None and type(None) in choices:
        return None
    named = [choice for choice in choices if choice is not type(None)]
    for choice in named[:-1]:
        try:
            return _read(choice, value, where)
        except Malformed:
            continue
    return _read(named[-1], value, where)


def _read_plain(expected: type, value: object, where: str) -> Any:
    if issubclass(expected, StrEnum):
        if not isinstance(value, str) or value not in list(expected):
            raise Malformed(f"{where} must be one of {', '.join(expected)}")
        return expected(value)
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    is_number_by_accident = isinstance(value, bool) and expected is not bool
    if not isinstance(value, expected) or is_number_by_accident:
        raise Malformed(f"{where} must be of type {expected.__name__}")
    return value
