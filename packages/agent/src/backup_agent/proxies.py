"""Find the proxy that the environment variables specify for a host."""

import os
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from backup_engine.frozen import frozen


@frozen
class Proxy:
    host: str
    port: int
    authorization: str | None = None
    """Value of the `Proxy-Authorization` header."""


def proxy_for(scheme: str, host: str, port: int, environment: Mapping[str, str] = os.environ) -> Proxy | None:
    """The proxy for this destination according to `https_proxy`, `http_proxy` and `all_proxy`, unless `no_proxy`
    excludes it.
    """
    if _is_exempt(host, port, _value(environment, "no_proxy")):
        return None
    address = _value(environment, f"{scheme}_proxy") or _value(environment, "all_proxy")
    if not address:
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    if not parts.hostname:
        return None
    return Proxy(parts.hostname, parts.port or 8080, _authorization(parts.username, parts.password))


def _value(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.upper()) or ""


def _authorization(username: str | None, password: str | None) -> str | None:
    if username is None:
        return None
    import base64  # imported only here: most machines use no proxy, and few proxies need a password

    pair = f"{unquote(username)}:{unquote(password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _is_exempt(host: str, port: int, exempt: str) -> bool:
    for entry in (part.strip().lower() for part in exempt.split(",")):
        name, _, only_port = entry.partition(":") if entry.count(":") == 1 else (entry, "", "")
        if only_port and only_port != str(port):
            continue
        name = name.lstrip("*").lstrip(".")
        if entry == "*" or (name and (host.lower() == name or host.lower().endswith(f".{name}"))):
            return True
    return False
