"""The providers that rclone supports, and the options of each."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from backup_engine.frozen import frozen

SECRET_NAME = re.compile(
    r"secret|passphrase|cookie|private_key|encryption_key|master_key|connection_string|access_grant|resource_key"
    r"|(^|_)(pass|password\d*|token|auth|authorization|headers|2fa|otp\w*|pem|credentials|sas_url|api_key|library_key"
    r"|private_access_key)$|^key$|customer_key(_base64)?$"
)
"""Options that grant access although rclone does not mark them, or only in later releases."""
NOT_SECRET = frozenset({"ask_password", "env_auth", "v2_auth"})
IDENTIFIES = frozenset({"account", "email", "endpoint", "host", "hostname", "user", "username"})
"""Options that rclone marks as sensitive because they identify someone. They grant no access and tell remotes apart."""
URL_WITH_PASSWORD = re.compile(r"^[a-z][a-z0-9+.-]*://[^/@]*:[^/@]*@", re.IGNORECASE)


def has_secret_name(name: str) -> bool:
    return bool(SECRET_NAME.search(name)) and name not in NOT_SECRET


def holds_secret(value: str) -> bool:
    """Whether the value of any option is an address containing a password."""
    return bool(URL_WITH_PASSWORD.match(value))


@frozen
class Option:
    name: str
    help: str
    type: str
    default: str
    is_required: bool
    is_secret: bool
    is_obscured: bool
    """rclone requires the value as returned by `rclone obscure`."""
    is_advanced: bool


@frozen
class Provider:
    name: str
    description: str
    options: Mapping[str, Option]


def read_providers(listed: Iterable[Mapping[str, Any]]) -> dict[str, Provider]:
    """Given the output of `rclone config providers`, return the providers by name."""
    found = (_provider(entry) for entry in listed)
    return {provider.name: provider for provider in sorted(found, key=lambda provider: provider.name)}


def _provider(entry: Mapping[str, Any]) -> Provider:
    options: dict[str, Option] = {}
    for described in entry.get("Options") or ():
        option = _option(described)
        options.setdefault(option.name, option)  # the first of several variants, each for a different kind of service
    return Provider(str(entry["Name"]), str(entry.get("Description") or ""), options)


def _option(described: Mapping[str, Any]) -> Option:
    name = str(described["Name"])
    obscured = bool(described.get("IsPassword"))
    sensitive = bool(described.get("Sensitive")) and name not in IDENTIFIES
    marked = obscured or sensitive or has_secret_name(name)
    return Option(
        name=name,
        help=str(described.get("Help") or ""),
        type=str(described.get("Type") or "string"),
        default=str(described.get("DefaultStr") or ""),
        is_required=bool(described.get("Required")),
        is_secret=marked,
        is_obscured=obscured,
        is_advanced=bool(described.get("Advanced")),
    )
