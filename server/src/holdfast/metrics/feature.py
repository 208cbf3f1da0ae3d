"""The parts of the service that metrics contribute."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version

from fastapi import FastAPI

from holdfast.kit import clock
from holdfast.metrics import totals
from holdfast.metrics.exposition import text_of
from holdfast.metrics.ping import EVERY_SECONDS as PING_SECONDS
from holdfast.metrics.ping import Ping
from holdfast.metrics.routes import routes
from holdfast.metrics.series import Reader, families
from holdfast.repositories.overdue import OverdueRules
from holdfast.settings import Settings
from holdfast.storage.session import Database

__all__ = ["PING_SECONDS", "READERS", "ROUTERS", "Metrics", "Ping", "build", "install"]

ROUTERS = (routes,)
READERS = (totals.READER,)
KEPT_SECONDS = 10.0


@dataclass
class Metrics:
    """The answer of `/metrics`, made from the store at most once in ten seconds."""

    database: Database
    most: int
    rules: OverdueRules
    monotonic: Callable[[], float] = time.monotonic
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _made_at: float = float("-inf")
    _text: str = ""

    def text(self) -> str:
        with self._guard:  # requests during a scrape wait for its answer
            if self.monotonic() - self._made_at >= KEPT_SECONDS:
                self._text = self.make()
                self._made_at = self.monotonic()
            return self._text

    def make(self) -> str:
        with self.database.reading() as session:
            reader = Reader(session, version("holdfast"), self.database.dialect, self.most, self.rules, clock.now())
            return text_of(families(reader))


def build(settings: Settings, database: Database, rules: OverdueRules) -> Metrics:
    return Metrics(database, settings.metrics_most_series, rules)


def install(app: FastAPI, metrics: Metrics) -> None:
    app.state.metrics = metrics
