"""Database dumps: the program for each kind of database, and the command that feeds dumps to an engine.

Passwords reach a dump program through a pipe or its own environment, never through arguments, files or the engine's
environment.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from backup_engine import feed
from backup_engine.command import Command, Machine, Secret
from backup_engine.compiled import run_compiled
from backup_engine.detect import EngineUnsupported
from backup_engine.environment import SEARCH_PATH
from backup_engine.feed import PROGRAM
from backup_engine.frozen import frozen
from backup_engine.named_database import NamedDatabase
from backup_engine.requests import InvalidRequest
from backup_engine.small_shutil import which

KINDS = ("postgresql", "postgresql_globals", "mysql", "sqlite")
ENDINGS: Mapping[str, str] = {
    "postgresql": "dump",
    "postgresql_globals": "sql",
    "mysql": "sql",
    "sqlite": "sql",
}
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}")
MOST_SECRETS = 50_000
MARIADB_PROGRAMS = ("mariadb-dump", "mysqldump")
TRANSACTIONAL = ("InnoDB", "RocksDB", "TokuDB", "ndbcluster", "BLACKHOLE")
"""Storage engines whose tables `--single-transaction` dumps as of one instant (tables of the last have no rows)."""
SILENT_OR_FAILED = """
exec 3>&1
ended=$({ "$0" "$@" 2>&1 >&3 3>&-; echo "$?"; } | head -c 4096)
[ "$ended" != 0 ] || exit 0
printf '%s\\n' "$ended" >&2
exit 1
"""
"""Runs sqlite3, which (3.46) ends the dump of a damaged file with COMMIT and exit code 0.

Only its messages reveal the damage, so any message counts as a failure; the first 4 KB are kept.
"""


@frozen
class Database(NamedDatabase):
    """A database to dump, with its password."""

    password: str | None = field(default=None, repr=False)

    @property
    def file(self) -> str:
        """File name of the dump. Raise InvalidRequest for an unsuitable name or an unknown kind."""
        if not NAME.fullmatch(self.name):
            raise InvalidRequest("A database name must be a plain name.")
        if self.kind not in ENDINGS:
            raise InvalidRequest(f"Databases of the kind {self.kind!a} cannot be dumped.")
        return f"{self.name}.{ENDINGS[self.kind]}"


def feeding(create: Command, databases: Sequence[Database], path: str = SEARCH_PATH) -> Command:
    """Wrap a command that reads the files of all dumps in order, so that the dumps are fed to it.

    Raise InvalidRequest for a database that cannot be dumped, EngineUnsupported if its program is missing. On an ssh
    machine, the feeder itself looks for the programs.
    """
    dumps = [{**_dump(database, path), "name": database.name, "file": database.file} for database in databases]
    secrets: dict[str, Secret] = {}
    for number, (dump, database) in enumerate(zip(dumps, databases, strict=True), 1):
        if database.password:
            dump["secret"] = f"HOLDFAST_DUMP_{number}"
            secrets[f"HOLDFAST_DUMP_{number}"] = Secret(database.password)
    shown = " ".join((*create.argv[:1], "create", *(database.file for database in databases)))
    known = replace(create, secrets={**create.secrets, **secrets}, shown=shown)
    if isinstance(create.machine, Machine):
        _require_short(known)
        return replace(known, feeder={"dumps": dumps})
    spec = {"engine": list(create.argv), "dumps": [_found_here(dump, path) for dump in dumps]}
    return replace(known, argv=(*run_compiled(feed.__file__), json.dumps(spec)))


def _require_short(command: Command) -> None:
    """Raise InvalidRequest for passwords that are too long: a run on another machine receives all secrets as one."""
    if len(json.dumps(command.secret_values)) > MOST_SECRETS:
        raise InvalidRequest("The database passwords are too long to be passed over ssh.")


def _dump(database: Database, path: str) -> dict[str, Any]:
    for text in (database.database, database.host, database.user, database.password):
        if text is not None and any(ord(character) < 32 for character in text):
            raise InvalidRequest(f"A setting of the database {database.name} contains a control character.")
    plain = {"PATH": path, "LANG": "C.UTF-8", "HOME": "/nonexistent"}
    if database.kind == "sqlite":
        if not (database.database or "").startswith("/"):
            raise InvalidRequest("The path of an SQLite file must be absolute.")
        # -nofollow: do not follow a link that replaces the file or a folder above it.
        options = ("-batch", "-readonly", "-nofollow")
        argv = ["/bin/sh", "-c", SILENT_OR_FAILED, PROGRAM, *options, database.database, ".dump"]
        return {"programs": ("sqlite3",), "argv": argv, "environment": plain, "end_mark": "COMMIT;\n"}
    if database.database is None and database.kind != "postgresql_globals":
        raise InvalidRequest(f"The database {database.name} has no name on its server.")
    if database.kind == "mysql":
        return _mysql(database, plain)
    variables = {
        **plain,
        **({"PGHOST": database.host} if database.host else {}),
        **({"PGPORT": str(database.port)} if database.port else {}),
        **({"PGUSER": database.user} if database.user else {}),
    }
    if database.kind == "postgresql_globals":
        argv = [PROGRAM, "--globals-only", "--no-password", "--database=postgres"]
        dump: dict[str, Any] = {
            "programs": ("pg_dumpall",),
            "argv": argv,
            "end_mark": "-- PostgreSQL database cluster dump complete",
        }
    else:
        variables["PGDATABASE"] = database.database or ""
        argv = [PROGRAM, "--format=custom", "--compress=0", "--no-password"]
        dump = {"programs": ("pg_dump",), "argv": argv, "end_mark": None}
    return {**dump, "environment": variables, "secret_variable": "PGPASSWORD"}


def _mysql(database: Database, plain: Mapping[str, str]) -> dict[str, Any]:
    is_socket = (database.host or "").startswith("/")
    options = {
        **({"user": database.user} if database.user else {}),
        **({"socket" if is_socket else "host": database.host} if database.host else {}),
        **({"port": str(database.port)} if database.port else {}),
    }
    flags = (
        "--single-transaction",
        "--quick",
        "--routines",
        "--events",
        "--triggers",
        "--default-character-set=utf8mb4",
    )
    argv = [PROGRAM, "--defaults-file={options}", *flags, "--", database.database]
    described = {"programs": MARIADB_PROGRAMS, "argv": argv, "end_mark": "-- Dump completed"}
    return {**described, "environment": dict(plain), "options": options, "transactional": TRANSACTIONAL}


def _found_here(dump: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The dump with its program on this machine. Raise EngineUnsupported if that is missing."""
    names: Sequence[str] = dump["programs"]
    program = next((found for name in names if (found := which(name, path))), None)
    if program is None:
        raise EngineUnsupported(f"The program {names[0]} is not installed on the machine that dumps the database.")
    argv = [program if argument == PROGRAM else argument for argument in dump["argv"]]
    return {**{name: value for name, value in dump.items() if name != "programs"}, "argv": argv}
