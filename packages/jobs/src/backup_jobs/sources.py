"""Facts about a backup's sources on its machine."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from backup_engine.frozen import frozen


@frozen
class LeftOut:
    """Places that a backup leaves out because the backup program keeps its own data there."""

    patterns: tuple[str, ...] = ()
    """For the engine."""
    sources: tuple[str, ...] = ()
    """Sources that the engine is not given at all."""
    lines: tuple[str, ...] = ()
    """For the log."""
    warnings: tuple[Mapping[str, Any], ...] = ()


class Sources(ABC):
    @property
    @abstractmethod
    def expected_size(self) -> int | None:
        """The size of the last complete backup of this repository."""

    @abstractmethod
    def left_out(self) -> LeftOut:
        """Determined once in an attempt: after a restart, the values that the engine was given stay valid."""

    @abstractmethod
    def outside(self) -> list[str]:
        """Sources outside the folders that the backup is confined to, if it is."""

    @abstractmethod
    def missing(self, sources: Sequence[str]) -> tuple[str, ...]:
        """The sources that do not exist."""
