"""Collects everything the engine needs to open a recorded repository."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from backup_engine.command import CalledAgent, Machine, Older
from backup_engine.frozen import frozen
from backup_engine.interface import Engine
from backup_engine.requests import RcloneAccess, RepositoryLocation
from backup_jobs.services import Control
from holdfast.access.vault import Vault
from holdfast.api.parts import Part
from holdfast.errors import Unprocessable
from holdfast.execution.engines import Engines
from holdfast.execution.ssh import Answer
from holdfast.repositories.key_files import KeyFiles
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import ServicePlaces
from holdfast.repositories.ssh_address import SshAccount
from holdfast.settings import Settings


class SshMachines(Protocol):
    """Facts about ssh machines that a repository's record does not contain."""

    def account(self, connection_id: int) -> SshAccount:
        """Return the account of a connection. Raise Unprocessable if there is no such connection."""

    def connection_of(self, account: SshAccount) -> int | None:
        """Return the connection to an account; without a user name, the only connection to that host."""

    def engine_path(self, connection_id: int) -> str | None:
        """Return the path of the engine there, if it is not the usual one."""

    def engine(self, connection_id: int, major: int) -> Engine:
        """Return the engine on that machine. Raise Unprocessable if none can be used."""

    def known_engine(self, connection_id: int, major: int) -> Engine | None:
        """Like `engine`, but from the last test, without contacting the machine; None if unknown or unusable."""

    def machine(self, connection_id: int) -> Machine:
        """Return how to run commands there."""

    def missing(self, connection_id: int, paths: Sequence[str]) -> tuple[str, ...]:
        """Return the paths that do not exist there; empty if that cannot be determined."""

    def behind_links(self, connection_id: int, paths: Sequence[str], sources: Sequence[str]) -> list[str]:
        """Return the paths below sources that are reached through a link below the source.

        Raise Unprocessable or Unavailable if the machine does not answer.
        """

    def own_place_exclusions(
        self, connection_id: int, sources: Sequence[str], known: Sequence[Mapping[str, Any]]
    ) -> tuple[str, ...]:
        """Return the engine's patterns that keep the service's own places out of a backup, if they are on that machine.

        `known` lists the places with their local device and inode. Raise Unprocessable if they are there and the
        patterns cannot be determined, Unavailable if the machine does not answer.
        """

    def control(self, connection_id: int) -> Control:
        """Return a control that runs short programs there. Raise Unprocessable if there is no such connection."""

    def rsh(self, connection_id: int) -> str:
        """Return the remote shell for the engine. Raise Unprocessable if the host cannot be reached to pin its key."""


SSH_MACHINES = Part[SshMachines]("ssh_machines")


class AgentEngines(Protocol):
    """The engines on the machines of agents."""

    def engine(self, repository: Repository) -> Engine:
        """Return the engine. Raise Unprocessable, Conflict or Unavailable if the agent cannot be called now."""

    def known_engine(self, repository: Repository) -> Engine | None:
        """Like `engine`, but from the agent's last report; None if it reported none that can be used."""

    def machine(self, repository: Repository) -> CalledAgent:
        """Return where the engine's commands are run. Raise Conflict if the agent no longer exists."""

    def look(self, agent_machine_id: int, question: Mapping[str, Any]) -> Answer:
        """Ask an agent about folders on its machine. Raise an error if the agent cannot be asked now."""


AGENT_ENGINES = Part[AgentEngines]("agent_engines")


@frozen
class RemoteAddress:
    """The engine's address for a repository on a remote."""

    address: str
    rclone: RcloneAccess


class CloudAccess(Protocol):
    def remote_address(self, remote_id: int, text: str) -> RemoteAddress:
        """Return the address on a remote. Raise HoldfastError if it cannot be opened."""


CLOUD_ACCESS = Part[CloudAccess]("cloud_access")


class Opener:
    """Determines how each repository is opened: engine, place and secrets."""

    def __init__(
        self,
        settings: Settings,
        engines: Engines,
        vault: Vault,
        machines: SshMachines,
        agents: AgentEngines,
        cloud: CloudAccess,
    ) -> None:
        self.own_places = ServicePlaces(settings)
        self.key_files = KeyFiles(settings.engine_dir / ".config" / "borg" / "keys", vault)
        self._engines = engines
        self._vault = vault
        self.machines = machines
        self.agents = agents
        self._cloud = cloud

    def engine(self, repository: Repository) -> Engine:
        """Return the repository's engine. Raise Unprocessable, Conflict or Unavailable if it cannot be used."""
        if repository.execution_target == "agent":
            return self.agents.engine(repository)
        return self.engine_of_major(repository.engine_version, runs_on(repository))

    def engine_of_major(self, major: int, machine_id: int | None = None) -> Engine:
        """Return the local engine, or the one on an ssh machine."""
        return self._engines.engine(major) if machine_id is None else self.machines.engine(machine_id, major)

    def known_engine(self, repository: Repository) -> Engine | None:
        """Return the engine of a repository if it is known without contacting another machine."""
        if repository.execution_target == "agent":
            return self.agents.known_engine(repository)
        machine_id = runs_on(repository)
        if machine_id is not None:
            return self.machines.known_engine(machine_id, repository.engine_version)
        try:
            return self.engine_of_major(repository.engine_version)
        except Unprocessable:
            return None

    def missing_sources(self, repository: Repository, sources: Sequence[str]) -> tuple[str, ...]:
        """Return the sources that do not exist where the engine runs."""
        machine_id = runs_on(repository)
        if machine_id is not None:
            return self.machines.missing(machine_id, sources)
        return tuple(source for source in sources if not os.path.lexists(source))

    def location(
        self, repository: Repository, *, relocated_ok: bool = False, older: Older = "refuse"
    ) -> RepositoryLocation:
        """Return the location. It makes the machine refuse to run the engine on a repository with a different id."""
        on_agent = repository.execution_target == "agent"
        self.key_files.materialise(repository.uuid, repository.engine_id, repository.keyfile)
        location = RepositoryLocation(
            path=repository.path,
            passphrase=self.passphrase(repository),
            encryption=repository.encryption,
            remote_path=repository.remote_path,
            relocated_ok=relocated_ok,
            unencrypted_ok=repository.unencrypted_confirmed,
            machine=self.agents.machine(repository) if on_agent else None,
            engine_id=repository.engine_id,
            older=older,
        )
        return self.with_access(
            location,
            repository.repository_type,
            repository.execution_target,
            repository.ssh_connection_id,
            repository.rclone_remote_id,
        )

    def with_access(
        self,
        location: RepositoryLocation,
        repository_type: str,
        execution_target: str,
        connection_id: int | None,
        remote_id: int | None,
    ) -> RepositoryLocation:
        """Add what the engine needs to reach the location: through rclone, on an ssh machine, or over ssh."""
        if remote_id is not None:
            remote = self._cloud.remote_address(remote_id, location.path)
            return replace(location, path=remote.address, rclone=remote.rclone)
        if connection_id is not None and execution_target == "ssh":
            return replace(location, machine=self.machines.machine(connection_id))
        if connection_id is not None and repository_type == "ssh":
            rsh = self.machines.rsh(connection_id)
            program = location.remote_path or self.machines.engine_path(connection_id)
            return replace(location, rsh=rsh, remote_path=program)
        return location

    def passphrase(self, repository: Repository) -> str | None:
        if repository.passphrase is None:
            return None
        return self._vault.decrypt(repository.passphrase, secret_context(repository.uuid))

    def seal(self, repository_uuid: str, passphrase: str) -> str:
        return self._vault.encrypt(passphrase, secret_context(repository_uuid))


OPENER = Part[Opener]("opener")


def runs_on(repository: Repository) -> int | None:
    """Return the ssh machine on which the repository's engine runs; None: here, or on its agent's machine."""
    return repository.ssh_connection_id if repository.execution_target == "ssh" else None


def secret_context(repository_uuid: str) -> str:
    return f"repository:{repository_uuid}:passphrase"
