"""The providers that rclone has, and which options each of them takes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SECRET_NAME = re.compile(
    r"secret|(^|_)(pass|password|token|auth|key_pem|credentials|sas_url|api_key|library_key|private_access_key)$"
    r"|^key$|customer_key(_base64)?$"
)
"""Options that open a door although older releases of rclone do not mark them as passwords."""
NOT_SECRET = frozenset({"ask_password", "env_auth", "v2_auth"})


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    help: str
    type: str
    default: str
    is_required: bool
    is_secret: bool
    is_obscured: bool
    """rclone wants the value as `rclone obscure` gives it."""
    is_advanced: bool


@dataclass(frozen=True, slots=True)
class Provider:
    name: str
    description: str
    options: Mapping[str, Option]


def read_providers(listed: Iterable[Mapping[str, Any]]) -> dict[str, Provider]:
    """Given the answer of `rclone config providers`, return the providers by name."""
    found = (_provider(entry) for entry in listed)
    return {provider.name: provider for provider in sorted(found, key=lambda provider: provider.name)}


def _provider(entry: Mapping[str, Any]) -> Provider:
    options: dict[str, Option] = {}
    for told in entry.get("Options") or ():
        option = _option(told)
        options.setdefault(option.name, option)  # one of several variants, each for another kind of service
    return Provider(str(entry["Name"]), str(entry.get("Description") or ""), options)


def _option(told: Mapping[str, Any]) -> Option:
    name = str(told["Name"])
    obscured = bool(told.get("IsPassword"))
    marked = obscured or (bool(SECRET_NAME.search(name)) and name not in NOT_SECRET)
    return Option(
        name=name,
        help=str(told.get("Help") or ""),
        type=str(told.get("Type") or "string"),
        default=str(told.get("DefaultStr") or ""),
        is_required=bool(told.get("Required")),
        is_secret=marked,
        is_obscured=obscured,
        is_advanced=bool(told.get("Advanced")),
    )
