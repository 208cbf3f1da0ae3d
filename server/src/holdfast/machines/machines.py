"""The ssh machines, as used by the rest of the service."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends

from backup_engine import own_places
from backup_engine.causes import UNREACHABLE
from backup_engine.command import Machine
from backup_engine.detect import EngineUnsupported, identified
from backup_engine.environment import SEARCH_PATH
from backup_engine.interface import Engine
from backup_engine.outcome import unreachable
from backup_jobs import services
from backup_jobs.services import Control
from holdfast.access.vault import Vault
from holdfast.api.parts import Part
from holdfast.errors import Unavailable, Unprocessable
from holdfast.execution import ssh
from holdfast.execution.engines import FAR_FOLDERS, Engines
from holdfast.machines import errors, store
from holdfast.machines.connection_test import ConnectionTest
from holdfast.machines.deploy import KeyDeployment
from holdfast.machines.keys import Keys
from holdfast.machines.models import SshConnection
from holdfast.machines.ssh_links import Links
from holdfast.repositories.ssh_address import SshAccount
from holdfast.settings import Settings
from holdfast.storage.session import Database

PRINT_EXCLUSIONS = """

import json
import sys

given = json.loads(sys.argv[1])
same = [one["path"] for one in given["known"] if _identity(one["path"]) == (one["device"], one["inode"])]
there = [os.path.expanduser(folder) for folder in given["folders"]]
print(json.dumps(OwnPlaces([*same, *there]).exclusions(given["sources"])))
"""
"""Runs after the source text of `backup_engine.own_places`."""
MISSING, LINKED, OURS = "holdfast-missing-", "holdfast-linked-", "holdfast-own-place"
LASTING = (ssh.HOST_KEY_CHANGED, ssh.KEY_REFUSED, "ssh.not_installed")
"""Failures of ssh that do not change with another attempt."""
NEEDED = frozenset({"reach", "host_key", "key", "engine"})
"""Test steps that must succeed before an engine can run on a machine."""


class Machines:
    def __init__(self, settings: Settings, database: Database, vault: Vault, engines: Engines) -> None:
        self._database = database
        self._engines = engines
        self._patience_seconds = settings.ssh_patience_hours * 3600
        self.keys = Keys(settings, database, vault)
        self.links = Links(database, self.keys)
        self.test = ConnectionTest(database, self.links)
        self.deployment = KeyDeployment(database, self.links)

    def account(self, connection_id: int) -> SshAccount:
        connection = self._known(connection_id)
        return SshAccount(connection.username, connection.host, connection.port)

    def connection_of(self, account: SshAccount) -> int | None:
        with self._database.reading() as session:
            found = store.on_host(session, account.host, account.port)
        matching = [one.id for one in found if account.username in (None, one.username)]
        return matching[0] if len(matching) == 1 else None

    def engine_path(self, connection_id: int) -> str | None:
        return self._known(connection_id).engine_path

    def rsh(self, connection_id: int) -> str:
        self._known(connection_id)
        return self.links.link(connection_id).rsh

    def engine(self, connection_id: int, major: int) -> Engine:
        return self._engine_of(self._probed(connection_id), major)

    def known_engine(self, connection_id: int, major: int) -> Engine | None:
        connection = self._known(connection_id)
        if not _is_probed(connection):
            return None
        try:
            return self._engine_of(connection, major)
        except Unprocessable:
            return None

    def _engine_of(self, connection: SshConnection, major: int) -> Engine:
        try:
            program = identified(str(connection.engine_program), str(connection.engine_version))
        except EngineUnsupported as error:
            raise Unprocessable(error.key, str(error), engine=major) from error
        if program.major != major:
            sentence = f"The engine on the machine is BorgBackup {program.version}, not of major {major}."
            raise Unprocessable("engine.unsupported", sentence, engine=major)
        return self._engines.far_engine(program, f"ssh-{connection.id}")

    def machine(self, connection_id: int) -> Machine:
        connection = self._known(connection_id)
        if connection.last_tested_at is None:
            connection = self.test.run(connection_id)
        link = self.links.link(connection_id)
        return Machine(link.destination, link.command, connection.python_program, self._patience_seconds)

    def missing(self, connection_id: int, paths: Sequence[str]) -> tuple[str, ...]:
        link = self.links.link(connection_id)
        tests = "\n".join(
            f"{{ [ -e {path} ] || [ -L {path} ]; }} || echo {MISSING}{number}"
            for number, path in enumerate(map(shlex.quote, paths))
        )
        answer = ssh.run_script(link, f"{tests}\nexit 0\n")
        if answer.code != 0:
            return ()
        return _numbered(MISSING, paths, answer.output)

    def behind_links(self, connection_id: int, paths: Sequence[str], sources: Sequence[str]) -> list[str]:
        tests = "".join(
            f"[ ! -L {shlex.quote(folder)} ] || echo {LINKED}{number}\n"
            for number, path in enumerate(paths)
            for folder in own_places.between(path, sources)
        )
        if not tests:
            return []
        answer = ssh.run_script(self.links.link(connection_id), f"{tests}exit 0\n")
        return list(_numbered(LINKED, paths, _required(answer)))

    def control(self, connection_id: int) -> Control:
        link = self.links.link(self._known(connection_id).id)

        def run(argv: tuple[str, ...], seconds: float) -> services.Answer:
            script = f'PATH="$PATH:{SEARCH_PATH}"\nexport PATH\nexec {shlex.join(argv)} </dev/null\n'
            answer = ssh.run_script(link, script, seconds)
            reached = answer.failure is None
            return services.Answer(answer.code if reached else None, f"{answer.output}\n{answer.errors}")

        return run

    def own_place_exclusions(
        self, connection_id: int, sources: Sequence[str], known: Sequence[Mapping[str, Any]]
    ) -> tuple[str, ...]:
        """Patterns that exclude the service's own places from a backup of these sources on the machine.

        Python on that machine finds them. Where it does not answer, the shell checks whether that machine is the
        service's own. Raise Unprocessable if it is, because it is then unknown which names lead to those places. Raise
        Unavailable if the machine does not answer.
        """
        connection, link = self._known(connection_id), self.links.link(connection_id)
        if connection.python_program is not None:
            given = json.dumps({"sources": list(sources), "known": list(known), "folders": FAR_FOLDERS})
            program = Path(own_places.__file__).read_text() + PRINT_EXCLUSIONS
            argv = (connection.python_program, "-I", "-S", "-c", program, given)
            answer = ssh.run_script(link, f"exec {shlex.join(argv)}\n")
            with suppress(ValueError):
                if answer.code == 0 and isinstance(patterns := answer.document(), list):
                    return tuple(map(str, patterns))
        same = "".join(
            f'[ "$(stat -c %d:%i {shlex.quote(one["path"])} 2>/dev/null)" != {one["device"]}:{one["inode"]} ] ||'
            f" echo {OURS}\n"
            for one in known
        )
        if OURS in _required(ssh.run_script(link, f"{same}exit 0\n")).split():
            sentence = (
                "This ssh connection leads to the service's own machine, but without Python there its own data cannot "
                "be located and left out. Install python3 and test the connection again, or run the "
                "engine without ssh (execution_target local)."
            )
            raise Unprocessable("backup.own_places_unknown", sentence)
        return ()

    def _probed(self, connection_id: int) -> SshConnection:
        """The connection once its engine is known. Raise Unprocessable with the first test step that fails."""
        connection = self._known(connection_id)
        if _is_probed(connection):
            return connection
        connection = self.test.run(connection_id)
        for step in (connection.last_test or {})["steps"]:
            if step["step"] in NEEDED and step["verdict"] != "ok":
                raise Unprocessable(step["key"] or "ssh.failed", step["message"] or ssh.SENTENCES["ssh.failed"])
        return connection

    def _known(self, connection_id: int) -> SshConnection:
        with self._database.reading() as session:
            connection = store.get(session, connection_id)
        if connection is None:
            sentence = "SSH connection not found; add and test it first."
            raise Unprocessable("repository.unknown_connection", sentence, ssh_connection_id=connection_id)
        return connection


MACHINES = Part[Machines]("machines")
TheMachines = Annotated[Machines, Depends(MACHINES)]


def _required(answer: ssh.Answer) -> str:
    """The output of a script. Raise Unprocessable or Unavailable if the machine did not run it to the end."""
    if answer.failure in LASTING:
        raise errors.refused(answer.failure)
    if answer.code != 0:
        message = (answer.errors.strip().splitlines() or ["no answer"])[-1]
        raise Unavailable(UNREACHABLE, unreachable(message.rstrip(".")))
    return answer.output


def _numbered(word: str, paths: Sequence[str], output: str) -> tuple[str, ...]:
    """The paths whose numbers follow a word in a script's output."""
    named = {found[1] for found in re.finditer(rf"(?m)^{word}(\d{{1,9}})\s*$", output)}
    return tuple(path for number, path in enumerate(paths) if str(number) in named)


def _is_probed(connection: SshConnection) -> bool:
    return connection.engine_version is not None and connection.engine_program is not None
