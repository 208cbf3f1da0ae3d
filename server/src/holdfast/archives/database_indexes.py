"""Indexes in PostgreSQL, one schema for each repository, so that all processes of a split service share them."""

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg_pool import ConnectionPool
from sqlalchemy import make_url

from holdfast.archives.indexes import MOST_OPEN, NOT_TO_BE_TRUSTED, Indexes
from holdfast.history.index import HistoryIndex
from holdfast.history.postgres import (
    Pool,
    PostgresStore,
    destroy,
    generation_in,
    schema_exists,
    schema_size,
    sole_holder,
)

MOST_CONNECTIONS = 16
"""Connections per process. An ingest takes three: the right to build, the right to write, and the transaction."""


class DatabaseIndexes(Indexes):
    def __init__(self, url: str) -> None:
        self._url = url
        self._made: Pool | None = None
        self._open: OrderedDict[str, HistoryIndex] = OrderedDict()
        self._guard = threading.Lock()

    def reading(self, repository_uuid: str) -> HistoryIndex | None:
        schema = schema_of(repository_uuid)
        generation = generation_in(self._pool, schema)
        with self._guard:
            known = self._open.get(repository_uuid)
            if known is not None and known.generation == generation:
                self._open.move_to_end(repository_uuid)
                return known
            self._open.pop(repository_uuid, None)
        if generation is None:
            return None
        try:
            index = HistoryIndex(PostgresStore(self._pool, schema))
        except NOT_TO_BE_TRUSTED:
            return None
        with self._guard:
            if len(self._open) >= MOST_OPEN:
                self._open.popitem(last=False)
            return self._open.setdefault(repository_uuid, index)

    def forget(self, repository_uuid: str) -> None:
        with self._guard:
            self._open.pop(repository_uuid, None)
        destroy(self._pool, schema_of(repository_uuid))

    def size(self, repository_uuid: str) -> int:
        return schema_size(self._pool, schema_of(repository_uuid))

    @contextmanager
    def building(self, repository_uuid: str) -> Iterator[bool]:
        with sole_holder(self._pool, f"building {schema_of(repository_uuid)}") as is_ours:
            yield is_ours

    def remove_all_of(self, repository_uuid: str) -> None:
        self.forget(repository_uuid)

    def close(self) -> None:
        with self._guard:
            pool, self._made = self._made, None
            self._open.clear()
        if pool is not None:
            pool.close()

    def _is_there(self, repository_uuid: str) -> bool:
        return schema_exists(self._pool, schema_of(repository_uuid))

    def _make(self, repository_uuid: str) -> None:
        PostgresStore.create(self._pool, schema_of(repository_uuid))

    def _is_current(self, repository_uuid: str, index: HistoryIndex) -> bool:
        return generation_in(self._pool, schema_of(repository_uuid)) == index.generation

    @property
    def _pool(self) -> Pool:
        """The connection pool, created when first needed: an idle service needs neither its threads nor its
        connections.
        """
        with self._guard:
            if self._made is None:
                address = make_url(self._url).set(drivername="postgresql").render_as_string(hide_password=False)
                self._made = ConnectionPool(address, min_size=0, max_size=MOST_CONNECTIONS, open=True)
            return self._made


def schema_of(repository_uuid: str) -> str:
    return f"history_{re.sub('[^0-9a-z]', '_', repository_uuid.lower())}"
