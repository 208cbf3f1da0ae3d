"""Decide which databases the service may dump on this machine. The agent decides, as the service may be compromised.

`allow` in `[databases]` of `config.toml` lists them as `KIND:DATABASE`, such as `postgresql:shop` or
`sqlite:/srv/app/app.db`, or as `KIND:DATABASE@HOST` for a server on another machine. `*` in place of the database
allows all databases of that kind. `programs` lists folders that are searched first for the dump programs.
"""

import os
from collections.abc import Sequence

from backup_agent.protected_places import is_own
from backup_engine.environment import SEARCH_PATH
from backup_engine.frozen import frozen
from backup_protocol import DatabaseBlock, DumpBlock

REFUSED = "backup.dump_refused"
ALL = "*"
HERE = frozenset({"localhost", "127.0.0.1", "::1"})
NOT_ALLOWED = (
    "This machine does not allow the service to dump {names}. Its owner can add them to allow in [databases] of "
    "config.toml, and restart the agent."
)
THROUGH_LINK = (
    "The SQLite file {name} is reached through a link. Use its real path, {real}, here and in [databases] of "
    "config.toml."
)
OWN_PLACE = "The SQLite file {name} is part of the data of the agent or the service, which is never dumped."


class Refused(Exception):
    """This machine does not dump the database. The message explains why, and what its owner can do."""


@frozen
class DumpRule:
    allowed: Sequence[str] = ()
    programs: Sequence[str] = ()
    own: Sequence[str] = ()
    """The agent's own folders."""

    @property
    def path(self) -> str:
        """Search path for the programs that dump databases."""
        return ":".join((*self.programs, SEARCH_PATH))

    def require(self, block: DumpBlock) -> None:
        """Raise Refused unless all databases may be dumped."""
        refused = [named(database) for database in block.databases if not self._is_allowed(database)]
        if refused:
            raise Refused(NOT_ALLOWED.format(names=", ".join(map(ascii, refused))))
        for database in block.databases:
            if database.kind == "sqlite":
                self._require_plain(database.database or "", block)

    def _is_allowed(self, database: DatabaseBlock) -> bool:
        return named(database) in self.allowed or named(database, ALL) in self.allowed

    def _require_plain(self, path: str, block: DumpBlock) -> None:
        """Refuse paths that lead through links: the owner allowed this file, not the target of a link.

        The dump program does not follow links either.
        """
        real = os.path.realpath(path)
        if real != path:
            raise Refused(THROUGH_LINK.format(name=ascii(path), real=ascii(real)))
        if is_own(path, self.own, block):
            raise Refused(OWN_PLACE.format(name=ascii(path)))


def named(database: DatabaseBlock, name: str | None = None) -> str:
    """The database's name as written in `allow`. Pass `ALL` as `name` for the entry that allows all of its kind."""
    place = f"{database.kind}:{name or database.database or ALL}"
    is_here = database.kind == "sqlite" or not database.host or database.host in HERE or database.host.startswith("/")
    return place if is_here else f"{place}@{database.host}"
