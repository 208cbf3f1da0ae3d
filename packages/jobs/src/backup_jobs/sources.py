"""What the machine of a backup knows about its sources."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a backup leaves out because the backup program keeps its own data there."""

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
        """Found out once in an attempt: a restart goes on with what the engine was given."""

    @abstractmethod
    def outside(self) -> list[str]:
        """Sources that are outside the folders that the backup is confined to, if it is."""

    @abstractmethod
    def missing(self, sources: Sequence[str]) -> tuple[str, ...]:
        """Those of the sources that do not exist."""
