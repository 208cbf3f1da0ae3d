"""What the service prints after its start: its address, who can log in, and what to do next."""

import sys

from holdfast.access.first_admin import FirstAdmin

DEFAULT_PORT = 8080


def of_service(host: str, port: int, first: FirstAdmin | None) -> str:
    """Return the greeting. Programs parse its first line, so nothing may follow the address there."""
    address = f"http://{_in_address(host)}:{port}"
    lines = [f"Holdfast is listening on {address}", *_reachable_from(host)]
    if first is not None:
        lines += [first.announcement(to_terminal=sys.stdout.isatty()), *_next_steps(host, port)]
    return "\n".join(lines)


def of_runner(first: FirstAdmin | None) -> str:
    lines = ["Holdfast runner is working"]
    if first is not None:
        lines.append(first.announcement(to_terminal=sys.stdout.isatty()))
    return "\n".join(lines)


def _reachable_from(host: str) -> list[str]:
    if host in ("127.0.0.1", "::1"):
        return [
            (
                "Only this machine can connect. To accept other connections, start with --host 0.0.0.0 (make run "
                "HOST=0.0.0.0)."
            )
        ]
    if host in ("0.0.0.0", "::"):  # noqa: S104 -- compared, not listened on
        return ["Every machine that can reach this one can connect. Put an HTTPS proxy in front of it."]
    return []


def _next_steps(host: str, port: int) -> list[str]:
    here = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104
    address = f"http://{_in_address(here)}:{port}"
    login = f"{sys.argv[0]} login"
    if (here, port) != ("127.0.0.1", DEFAULT_PORT):
        login += f" --server {address}"
    return [f"Next: open {address} in a browser, or run {login}", f"API:  {address}/api/docs"]


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host
