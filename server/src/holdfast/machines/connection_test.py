"""Tests a connection step by step: a verdict for each step, and a remedy for each that fails."""

from collections.abc import Iterator
from typing import Any, get_args

from holdfast.errors import Unprocessable
from holdfast.execution import ssh
from holdfast.execution.ssh import HostKey
from holdfast.kit import clock
from holdfast.machines import probe, store
from holdfast.machines.models import SshConnection
from holdfast.machines.probe import Probe
from holdfast.machines.schemas import StepAnswer, StepName, StepVerdict
from holdfast.machines.ssh_links import Links
from holdfast.storage.session import Database

STEPS: tuple[StepName, ...] = get_args(StepName)
SENTENCES = {
    **ssh.SENTENCES,
    "ssh.no_commands": "The account is not allowed to run commands: it can hold repositories, but cannot run the "
    "engine.",
    "ssh.engine_missing": "The machine has no engine; install BorgBackup 1.2 or newer there, or set its path.",
    "ssh.engine_unsupported": "The engine on the machine is too old or not BorgBackup; install 1.2 or newer, best 1.4.",
    "ssh.python_missing": "Python 3.9 or newer is missing: an engine on the machine stops if the connection is cut.",
    "ssh.disk_unknown": "The free space of the path could not be read; check that the path exists and is readable.",
    "ssh.no_host_key": "The host offers no key that can be pinned; check its sshd log.",
}
OPTIONAL = frozenset({"python", "disk", "engine"})
"""Steps that may fail although the connection itself works."""


def good(step: StepName, **details: Any) -> StepAnswer:
    return StepAnswer(step=step, verdict="ok", key=None, message=None, details=details or None)


def bad(step: StepName, key: str, verdict: StepVerdict = "failed", **details: Any) -> StepAnswer:
    return StepAnswer(step=step, verdict=verdict, key=key, message=SENTENCES[key], details=details or None)


def skipped(step: StepName) -> StepAnswer:
    return StepAnswer(step=step, verdict="skipped", key=None, message=None, details=None)


class ConnectionTest:
    """One test: each step is tried only if the earlier ones succeeded."""

    def __init__(self, database: Database, links: Links) -> None:
        self._database = database
        self._links = links

    def run(self, connection_id: int, path: str = ".") -> SshConnection:
        """Test the connection and store the result. Raise NotFound."""
        connection = self._links.connection(connection_id)
        steps: list[StepAnswer] = []
        probed = Probe(took_commands=False)
        for step in self._steps(connection, path):
            if isinstance(step, Probe):
                probed = step
            else:
                steps.append(step)
        done = {step.step for step in steps}
        steps += [skipped(name) for name in STEPS if name not in done]
        return self._store(connection, steps, probed, path)

    def _steps(self, connection: SshConnection, path: str) -> Iterator[StepAnswer | Probe]:
        if (why := ssh.why_unreachable(connection.host, connection.port)) is not None:
            yield bad("reach", why, host=connection.host, port=connection.port)
            return
        yield good("reach")
        host_key = self._host_key(connection)
        yield host_key
        if host_key.verdict != "ok":
            return
        connection = self._links.connection(connection.id)
        link = self._links.link_of(connection, self._links.key_of(connection))
        answer = ssh.run_script(link, probe.script(connection.engine_path or "borg", path))
        if answer.failure is not None:
            where: StepName = "host_key" if answer.failure == ssh.HOST_KEY_CHANGED else "key"
            yield bad(where, answer.failure, user=connection.username)
            return
        yield good("key", user=connection.username)
        probed = probe.read(answer)
        yield probed
        yield from _engine_and_disk(probed, path)

    def _host_key(self, connection: SshConnection) -> StepAnswer:
        try:
            shown = self._links.shown_by(connection)
        except Unprocessable as error:
            return bad("host_key", error.key)
        if connection.host_key is None:
            connection = self._links.pin(connection)
        pinned = HostKey.of(connection.host_key or shown.text)
        if pinned != shown:
            return bad(
                "host_key",
                ssh.HOST_KEY_CHANGED,
                pinned_fingerprint=pinned.fingerprint,
                shown_fingerprint=shown.fingerprint,
            )
        return good("host_key", fingerprint=pinned.fingerprint, type=pinned.kind)

    def _store(self, connection: SshConnection, steps: list[StepAnswer], probed: Probe, path: str) -> SshConnection:
        works = all(step.verdict == "ok" for step in steps if step.step not in OPTIONAL)
        now = clock.now()
        with self._database.writing() as session:
            row = store.require(session, connection.id)
            row.state = "ok" if works else "failed"
            row.last_test = {"path": path, "steps": [step.model_dump() for step in steps]}
            row.last_tested_at = now
            if works:
                row.last_seen_at = now
                row.key_id = row.key_id or self._links.key_of(row).id
            if probed.took_commands:
                row.engine_program, row.engine_version = probed.engine.path, probed.engine.version
                row.python_program = probed.python.path if probed.has_python else None
                row.python_version = probed.python.version
            return row


def _engine_and_disk(probed: Probe, path: str) -> Iterator[StepAnswer]:
    if not probed.took_commands:
        yield bad("engine", "ssh.no_commands", "unknown")
        return
    if probed.engine.path is None:
        yield bad("engine", "ssh.engine_missing")
    elif not is_supported(probed.engine.version):
        yield bad("engine", "ssh.engine_unsupported", program=probed.engine.path, version=probed.engine.version)
    else:
        yield good("engine", program=probed.engine.path, version=probed.engine.version)
    if probed.has_python:
        yield good("python", program=probed.python.path, version=probed.python.version)
    else:
        yield bad("python", "ssh.python_missing", version=probed.python.version)
    if probed.free_bytes is None:
        yield bad("disk", "ssh.disk_unknown", path=path)
    else:
        yield good("disk", path=path, free_bytes=probed.free_bytes, total_bytes=probed.total_bytes)


def is_supported(version: str | None) -> bool:
    numbers = [int(part) for part in (version or "").split(".")[:2] if part.isdigit()]
    return tuple(numbers) >= (1, 2)
