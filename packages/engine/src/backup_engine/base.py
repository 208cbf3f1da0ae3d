"""What the engines of all majors share: which program, in which environment, and how arguments become a command."""

from collections.abc import Mapping
from dataclasses import dataclass

from backup_engine.command import LARGEST_RESULT, LARGEST_STREAM, Command, Guard
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
        tells_id: bool = False,
        must_tell: bool = True,
        variables: Mapping[str, str] | None = None,
        working_directory: str | None = None,
        read_whole: bool = False,
    ) -> Command:
        """`read_whole`: the caller reads the whole answer into memory, so its size is limited."""
        return Command(
            argv=(self.program.path, *arguments),
            environment={**self.environment.variables(location, quick=quick), **(variables or {})},
            secrets=location_secrets(location),
            working_directory=working_directory,
            machine=location.machine,
            most_output=LARGEST_RESULT if read_whole else LARGEST_STREAM,
            guard=Guard(
                major=self.program.major,
                engine_id=location.engine_id,
                path=_folder(location.path),
                program=self.program.path,
                probe=self._probe(location),
                must_tell=must_tell,
                tells_id=tells_id,
                older=location.older,
            ),
        )

    def _probe(self, location: RepositoryLocation) -> tuple[str, ...]:
        """Arguments that make the engine print the id of a repository and do little else."""
        raise NotImplementedError


def _folder(address: str) -> str | None:
    """The repository's folder on the machine of the engine; None if it is stored elsewhere."""
    path = address.removeprefix("file://")
    return path if path.startswith("/") else None
