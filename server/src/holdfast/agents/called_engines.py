"""Engines on agents' machines, used like local ones: each command becomes a call that the agent fetches."""

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from backup_engine.command import LARGEST_STREAM, Call, CalledAgent, Command
from backup_engine.compiled import run_compiled
from backup_engine.detect import EngineProgram, EngineUnsupported, identified
from backup_engine.environment import EngineEnvironment
from backup_engine.far import agent_call
from backup_engine.features import Features
from backup_engine.frozen import frozen
from backup_engine.interface import Engine, engine_for
from backup_engine.requests import ListArchivesRequest, ReadChunksRequest, RepositoryLocation, TryChunksRequest
from backup_protocol import CALL_METHODS, Capability, JobKind, write
from backup_protocol.calls import LOOK
from holdfast.agents import errors, store
from holdfast.agents.models import AgentMachine
from holdfast.errors import HoldfastError, Unavailable, Unprocessable
from holdfast.execution.ssh import Answer, run_here
from holdfast.repositories import agent_target
from holdfast.repositories.models import Repository
from holdfast.storage.session import Database

THERE = EngineEnvironment("/", "agent")
"""Never used: the agent builds the command itself."""
COMES_SECONDS = 20.0
"""How long a request waits for an agent to pick up a query."""
LOOK_SECONDS = 50.0
"""How long a request waits for the names in a folder on an agent's machine."""


@frozen
class CalledEngines:
    """Provides engines for agents' repositories, and queries agents about their folders."""

    database: Database
    folder: Path

    def engine(self, repository: Repository) -> Engine:
        """Return the repository's engine. Raise Unprocessable, Conflict or Unavailable if its agent cannot be called
        now.
        """
        agent = self._agent(repository)
        self._require_reachable(agent, JobKind.ENGINE_CALL)
        reads_chunks = Capability.CHUNKS_READ in (agent.capabilities or ())
        return cast("Engine", _CalledEngine(_engine_of(agent, repository), reads_chunks=reads_chunks))

    def known_engine(self, repository: Repository) -> Engine | None:
        try:
            return _engine_of(self._agent(repository), repository)
        except HoldfastError:
            return None

    def look(self, agent_machine_id: int, question: Mapping[str, Any]) -> Answer:
        """Query an agent about folders of its machine.

        Raise NotFound, Conflict, Unavailable or Unprocessable if it cannot be queried now.
        """
        with self.database.reading() as session:
            agent = store.get(session, agent_machine_id)
        if agent is None:
            raise errors.unknown_agent(agent_machine_id)
        self._require_reachable(agent, Capability.FOLDERS_LOOK)
        request = {
            "agent_machine_id": agent.id,
            "folder": str(self.folder.absolute()),
            "patience_seconds": COMES_SECONDS,
            "method": LOOK,
            "request": dict(question),
        }
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(request, file)
            file.flush()
            return run_here((*run_compiled(agent_call.__file__), file.name), LOOK_SECONDS)

    def _require_reachable(self, agent: AgentMachine, capability: str) -> None:
        if agent.status in store.SHUT_OUT:
            raise agent_target.shut_out(agent.id)
        if agent.status != "online":
            raise Unavailable(
                "agents.offline", f"The agent {agent.name} is offline; try again when it is back.", retry_after=30
            )
        if capability not in (agent.capabilities or ()):
            raise Unprocessable("agents.too_old", f"The agent {agent.name} is too old for this request; update it.")

    def machine(self, repository: Repository) -> CalledAgent:
        agent = self._agent(repository)
        return CalledAgent(agent.name, agent.id, repository.id, str(self.folder.absolute()))

    def _agent(self, repository: Repository) -> AgentMachine:
        with self.database.reading() as session:
            agent = store.get(session, repository.agent_machine_id or 0)
        if agent is None:
            raise agent_target.shut_out(repository.agent_machine_id)
        return agent


def _engine_of(agent: AgentMachine, repository: Repository) -> Engine:
    try:
        return engine_for(_program(agent, repository.engine_version), THERE)
    except EngineUnsupported as error:
        raise Unprocessable(error.key, str(error), engine=repository.engine_version) from error


def _program(agent: AgentMachine, major: int) -> EngineProgram:
    for entry in agent.engine_versions or ():
        if entry.get("major") == major:
            return identified(str(entry.get("path", "")), str(entry.get("version", "")))
    raise Unprocessable(
        "engine.not_installed", f"The agent {agent.name} has no BorgBackup {major}; install it there.", engine=major
    )


class _CalledEngine:
    """Builds each command like a local engine, which validates the request, and attaches the call."""

    def __init__(self, engine: Engine, *, reads_chunks: bool) -> None:
        self._engine = engine
        self.reads_chunks = reads_chunks

    @property
    def program(self) -> EngineProgram:
        return self._engine.program

    @property
    def features(self) -> Features:
        return self._engine.features

    def address(self, name: str, engine_id: str | None) -> str:
        return self._engine.address(name, engine_id)

    def read_chunks(self, location: RepositoryLocation, request: ReadChunksRequest) -> Command:
        return self._for_chunks(location, "read_chunks", request)

    def try_chunks(self, location: RepositoryLocation, request: TryChunksRequest) -> Command:
        return self._for_chunks(location, "try_chunks", request)

    def _for_chunks(self, location: RepositoryLocation, method: str, request: Any) -> Command:
        """Build a call for a chunk reader.

        This is not a command of the engine: the agent starts the reader under the engine's own Python.
        """
        opened = self._engine.list_archives(location, ListArchivesRequest(last=1))
        return replace(opened, argv=(method,), call=Call(method, write(request)), most_output=LARGEST_STREAM)

    def __getattr__(self, method: str) -> Callable[[RepositoryLocation, Any], Command]:
        make = getattr(self._engine, method)

        def called(location: RepositoryLocation, request: Any) -> Command:
            if method not in CALL_METHODS:
                raise EngineUnsupported("Agents do this in a separate job, not in a call.")
            command: Command = make(location, request)
            return replace(command, call=Call(method, write(request)))

        return called
