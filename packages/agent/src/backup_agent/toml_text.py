"""Write the small part of TOML that the agent needs: the standard library can only read it."""

import json
from collections.abc import Mapping
from typing import Any


def toml_text(content: Mapping[str, Any], heading: str = "") -> str:
    """Return strings, numbers, booleans, lists of them and one level of tables as TOML. None values are left out."""
    lines = [f"# {line}".rstrip() for line in heading.splitlines()]
    tables = {name: value for name, value in content.items() if isinstance(value, Mapping) and value}
    lines += [
        f"{name} = {_value(value)}"
        for name, value in content.items()
        if value is not None and not isinstance(value, Mapping)
    ]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{key} = {_value(value)}" for key, value in table.items() if value is not None)]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    raise TypeError(f"{type(value).__name__} cannot be written as TOML here")
