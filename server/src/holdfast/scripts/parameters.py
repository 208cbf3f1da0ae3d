"""Parameters of scripts: checked against the script's declarations, and stored so that secrets stay secret."""

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from holdfast.access.vault import Vault
from holdfast.kit import clock
from holdfast.scripts import errors, store
from holdfast.scripts.models import ScriptSecrets

VARIABLE = "HOLDFAST_PARAM_"
Declared = Sequence[Mapping[str, Any]]


def secret_context(name: str) -> str:
    return f"script_secrets:{name}"


def variable(name: str) -> str:
    return VARIABLE + name.upper()


def checked(
    declared: Declared, given: Mapping[str, Any], kept: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Given values for declared parameters, return the plain and the secret ones as text. Raise Unprocessable.

    `kept` contains secret values that were provided earlier; each is kept unless a new value is given.
    """
    known = {str(parameter["name"]): parameter for parameter in declared}
    for name in given:
        if name not in known:
            raise errors.bad_parameter(name, "is not declared by the script")
    plain: dict[str, str] = {}
    secret: dict[str, str] = {}
    for name, parameter in known.items():
        if name in given:
            (secret if parameter["secret"] else plain)[name] = _text(parameter, given[name])
        elif parameter["secret"] and name in kept:
            secret[name] = kept[name]
        elif parameter["required"]:
            raise errors.bad_parameter(name, "is required")
    return plain, secret


def plain(declared: Declared, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the plain ones among given values as text, in the order declared. Raise Unprocessable."""
    return {
        str(parameter["name"]): _text(parameter, given[parameter["name"]])
        for parameter in declared
        if not parameter["secret"] and parameter["name"] in given
    }


def _text(parameter: Mapping[str, Any], value: Any) -> str:
    """Return the value as the script receives it. Raise Unprocessable if it has the wrong type."""
    match parameter["type"], value:
        case "boolean", bool():
            return "true" if value else "false"
        case "boolean", "true" | "false":
            return str(value)
        case "integer", int() if not isinstance(value, bool):
            return str(value)
        case "integer", str() if value.lstrip("-").isascii() and value.lstrip("-").isdigit():
            return str(int(value)) if len(value) <= 20 else value[:20]
        case "text", str():
            return value
    raise errors.bad_parameter(str(parameter["name"]), f"must be of the type {parameter['type']}")


class Secrets:
    """Secret parameters in the store."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def keep(self, session: Session, values: Mapping[str, str]) -> str | None:
        """Store secret values; return the name under which they can be read again."""
        if not values:
            return None
        name = uuid.uuid4().hex
        sealed = self._vault.encrypt(json.dumps(dict(values)), secret_context(name))
        session.add(ScriptSecrets(uuid=name, sealed=sealed, created_at=clock.now()))
        session.flush()
        return name

    def read(self, session: Session, name: str | None) -> dict[str, str] | None:
        """Return the values; an empty mapping if there is no name, None if the name is no longer known."""
        if name is None:
            return {}
        found = store.secrets(session, name)
        if found is None:
            return None
        values: dict[str, str] = json.loads(self._vault.decrypt(found.sealed, secret_context(name)))
        return values
