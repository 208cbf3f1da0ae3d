"""Replace a command for another machine by the local command that runs it there."""

import json
import os
import secrets
from pathlib import Path
from typing import Any

from backup_engine.command import CalledAgent, Command, Secret
from backup_engine.compiled import run_compiled
from backup_engine.far import agent_call, run

SUFFIX = ".far"
SECRETS = "HOLDFAST_FAR_SECRETS"
NICENESS = 10


def request_file(folder: Path) -> Path:
    """Files about a run on another machine are stored next to its spool folder, and outlive it."""
    return folder.with_name(folder.name + SUFFIX)


def ended_file(folder: Path) -> Path:
    """File in which the near side of a run records when and how its engine ended on the other machine."""
    return Path(f"{request_file(folder)}.ended")


def near_command(command: Command, folder: Path, *, piped: bool) -> Command:
    """Given a command for another machine and its spool folder, return the local command that runs it there.

    The name of the run is chosen once per spool folder, so that a second launch finds the same run.
    """
    machine = command.machine
    assert machine is not None
    file = request_file(folder)
    if isinstance(machine, CalledAgent):
        return _called(command, machine, file)
    kept = _read(file)
    record = {
        "run": kept["run"] if kept else secrets.token_hex(16),
        "ssh": list(machine.ssh),
        "python": machine.python,
        "patience_seconds": machine.patience_seconds,
        "piped": piped,
        "command": {
            "argv": list(command.argv),
            "environment": dict(command.environment),
            "secret_names": sorted(command.secrets),
            "working_directory": command.working_directory,
            "most_output": command.most_output,
            "nice": NICENESS,
            "guard": command.guard.record() if command.guard else None,
            "script": command.script.record() if command.script else None,
            "feeder": command.feeder,
            "narrows": command.narrows,
        },
    }
    _write(file, record)
    values = {name: {"value": secret.value, "delivery": secret.delivery} for name, secret in command.secrets.items()}
    return Command(
        argv=(*run_compiled(run.__file__), str(file)),
        environment={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
        secrets={SECRETS: Secret(json.dumps(values))},
        most_output=command.most_output,
    )


def _called(command: Command, agent: CalledAgent, file: Path) -> Command:
    assert command.call is not None, "an agent can only run calls"
    record = {
        "agent_machine_id": agent.agent_machine_id,
        "repository_id": agent.repository_id,
        "folder": agent.folder,
        "patience_seconds": agent.patience_seconds,
        "method": command.call.method,
        "request": command.call.request,
        "older": command.guard.older if command.guard else "refuse",
    }
    _write(file, record)
    return Command(
        argv=(*run_compiled(agent_call.__file__), str(file)),
        environment={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
        most_output=command.most_output,
    )


def was_started_remotely(folder: Path) -> bool:
    """Whether the run of this spool folder may have been started on its machine."""
    return Path(f"{request_file(folder)}.begun").exists()


def any_started_remotely(folder: Path) -> bool:
    """Whether any step below this folder may have been started on another machine."""
    return any(folder.rglob(f"*{SUFFIX}.begun"))


class FarStop:
    """Requests that an engine on another machine stop. The near side passes this on as soon as it reaches the
    machine.
    """

    def __init__(self, folder: Path) -> None:
        self._file = Path(f"{request_file(folder)}.cancel")

    def act(self) -> None:
        self._file.touch(mode=0o600)


def _read(file: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    return record


def _write(file: Path, record: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = Path(f"{file}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        json.dump(record, stream)
        stream.flush()
        os.fsync(stream.fileno())
    part.rename(file)
