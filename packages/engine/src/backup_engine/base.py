"""What the engines of all majors share: which program, in which environment, and how arguments become a command."""

from collections.abc import Mapping
from dataclasses import dataclass

from backup_engine.command import Command
from backup_engine.detect import EngineProgram
from backup_engine.environment import EngineEnvironment, location_secrets
from backup_engine.features import Features, features
from backup_engine.requests import RepositoryLocation

REPAIR_IS_MEANT: Mapping[str, str] = {"BORG_CHECK_I_KNOW_WHAT_I_AM_DOING": "YES"}


@dataclass(frozen=True, slots=True)
class EngineBase:
    program: EngineProgram
    environment: EngineEnvironment
    lock_wait: int

    @property
    def features(self) -> Features:
        return features(self.program)

    def _command(
        self,
        location: RepositoryLocation,
        arguments: tuple[str, ...],
        *,
        quick: bool = False,
        variables: Mapping[str, str] | None = None,
        working_directory: str | None = None,
    ) -> Command:
        return Command(
            argv=(self.program.path, *arguments),
            environment={**self.environment.variables(location, quick=quick), **(variables or {})},
            secrets=location_secrets(location),
            working_directory=working_directory,
            machine=location.machine,
        )
