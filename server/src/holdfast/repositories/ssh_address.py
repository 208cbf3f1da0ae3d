"""The address of a repository reached by ssh: ``ssh://user@host:port/path``."""

import posixpath
import re

from backup_engine.frozen import frozen
from holdfast.errors import Unprocessable

ADDRESS = re.compile(
    r"ssh://(?:(?P<user>[^@:/\s]+)@)?(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^@:/\[\]\s]+))(?::(?P<port>\d{1,5}))?(?P<path>/.+)",
    re.DOTALL,
)
DEFAULT_PORT = 22
IN_HOME = ("/./", "/~")
"""Paths that the engine on the other side resolves relative to the account's home folder."""


@frozen
class SshAccount:
    username: str | None
    host: str
    port: int = DEFAULT_PORT


@frozen
class SshAddress:
    account: SshAccount
    path: str

    @property
    def text(self) -> str:
        account = self.account
        host = f"[{account.host}]" if ":" in account.host else account.host
        user = f"{account.username}@" if account.username else ""
        return f"ssh://{user}{host}:{account.port}{self.path}"


def parse(text: str) -> SshAddress | None:
    """Return the parts of an address in normal form; None if it is not an ssh address."""
    found = ADDRESS.fullmatch(text)
    if found is None:
        return None
    host = (found["six"] or found["host"]).lower()
    return SshAddress(SshAccount(found["user"], host, int(found["port"] or DEFAULT_PORT)), normal_path(found["path"]))


def normal_path(path: str) -> str:
    if path.startswith(IN_HOME):
        return path
    return "/" + posixpath.normpath(path).strip("/")


def require(text: str) -> SshAddress:
    address = parse(text)
    if address is None or address.path == "/":
        raise Unprocessable(
            "repository.bad_address",
            "The address of an ssh repository must be ssh://user@host:port/path, or an absolute path with "
            "ssh_connection_id.",
        )
    return address
