"""Facts about the sources of a backup on their machine."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from backup_engine.frozen import frozen


@frozen
class Exclusions:
    """Places excluded from a backup because the backup program keeps its own data there."""

    patterns: tuple[str, ...] = ()
    """Patterns for the engine."""
    sources: tuple[str, ...] = ()
    """Sources that are not passed to the engine at all."""
    lines: tuple[str, ...] = ()
    """Lines for the log."""
    warnings: tuple[Mapping[str, Any], ...] = ()


class Sources(ABC):
    @property
    @abstractmethod
    def expected_size(self) -> int | None:
        """Size of this repository's last complete backup."""

    @abstractmethod
    def exclusions(self) -> Exclusions:
        """Places to leave out. Determined once per attempt: after a restart, the engine's original values stay in
        effect.
        """

    @abstractmethod
    def outside(self) -> list[str]:
        """Sources outside the folders that confine the backup, if any do."""

    @abstractmethod
    def missing(self, sources: Sequence[str]) -> tuple[str, ...]:
        """The sources that do not exist."""
