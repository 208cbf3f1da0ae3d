"""The answer to a scrape."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version

from holdfast.api.parts import Part
from holdfast.kit import clock
from holdfast.metrics.exposition import text_of
from holdfast.metrics.series import Reader, families
from holdfast.repositories.overdue import OverdueRules
from holdfast.storage.session import Database

KEPT_SECONDS = 10.0


@dataclass
class Metrics:
    """The answer of `/metrics`, made from the store at most once every ten seconds."""

    database: Database
    most: int
    rules: OverdueRules
    monotonic: Callable[[], float] = time.monotonic
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _made_at: float = float("-inf")
    _text: str = ""

    def text(self) -> str:
        with self._guard:  # requests that arrive during a scrape wait for its answer
            if self.monotonic() - self._made_at >= KEPT_SECONDS:
                self._text = self.make()
                self._made_at = self.monotonic()
            return self._text

    def make(self) -> str:
        with self.database.reading() as session:
            reader = Reader(session, _version(), self.database.dialect, self.most, self.rules, clock.now())
            return text_of(families(reader))


@cache
def _version() -> str:
    return version("holdfast")


METRICS = Part[Metrics]("metrics")
