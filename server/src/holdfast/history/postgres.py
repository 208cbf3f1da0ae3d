"""An index in PostgreSQL: one schema per repository, with the same tables as in a file. Forgetting it is one DROP."""

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg import sql
from psycopg_pool import ConnectionPool, PoolTimeout

from holdfast.history import errors
from holdfast.history.names import ROOT, key32, rendered
from holdfast.history.schema import (
    ROOT_ID,
    SCHEMA_VERSION,
    TABLES,
    bits_id,
    column_id,
    postgres_search,
    postgres_tables,
)
from holdfast.history.sql import Rows, SqlSnapshot
from holdfast.history.store import ArchiveRow, Row, VersionKey

Connection = psycopg.Connection[tuple[object, ...]]
Pool = ConnectionPool[Connection]

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")

_READ = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Look-ups of a batch go by index, row by row; statistics of a table that has just grown would suggest otherwise.
_WRITE = "SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_seqscan = off"

_ROWS_AT_ONCE = 500

_TYPES = {"path": {"directory": "bytea"}, "name": {"name": "bytea"}, "link": {"version": "bytea"}}
_TEXTS = {"folded", "username", "groupname"}


@contextmanager
def named_errors(schema: str) -> Iterator[None]:
    """Convert all errors of the database driver to errors of this package."""
    try:
        yield
    except (psycopg.Error, PoolTimeout) as error:
        raise _named(error, schema) from error


def _named(error: Exception, schema: str) -> errors.HistoryError:
    if isinstance(error, (pg.DiskFull, pg.InsufficientResources)):
        return errors.IndexStorageFull(f"the database has no space left for the history index {schema}")
    if isinstance(error, (pg.UndefinedTable, pg.InvalidSchemaName)):
        return errors.IndexMissing(f"no history index {schema}")
    if isinstance(error, (pg.DataCorrupted, pg.IndexCorrupted)):
        return errors.IndexDamaged(f"the history index {schema} is damaged: {error}")
    if isinstance(error, pg.UniqueViolation):
        return errors.IndexBusy(f"the history index {schema} is being written by another ingest")
    return errors.IndexUnavailable(f"the history index {schema} cannot be used just now: {error}")


@lru_cache(maxsize=512)
def _percent_style(statement: str) -> str:
    return statement.replace("?", "%s").replace("{in}", "= ANY(%s::bigint[])")


class PostgresSnapshot(SqlSnapshot):
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        with self._connection.cursor(binary=True) as cursor:
            return cursor.execute(_percent_style(sql).encode(), parameters).fetchall()

    def each_row(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        with self._connection.cursor("each_row") as cursor:
            cursor.itersize = _ROWS_AT_ONCE
            yield from cursor.execute(_percent_style(sql).encode(), parameters, binary=True)

    def rows_in(self, sql: str, ids: Iterable[int], more: Sequence[object] = ()) -> Rows:
        return self.rows(sql, (list(ids), *more))

    def find_directories(self, paths: Sequence[bytes]) -> dict[bytes, int]:
        return self._find("directory", "path", paths)

    def find_names(self, names: Sequence[bytes]) -> dict[bytes, int]:
        return self._find("name", "name", names)

    def _find(self, table: str, column: str, values: Sequence[bytes]) -> dict[bytes, int]:
        found = self.rows(
            f"SELECT o.{column}, o.id FROM unnest(?::bigint[], ?::bytea[]) AS u(hash, {column})"  # noqa: S608 - our own names
            f" JOIN {table} o ON o.hash = u.hash AND o.{column} = u.{column}",
            ([key32(value) for value in values], list(values)),
        )
        return {row[0]: row[1] for row in found}

    def find_paths(self, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
        found = self.rows(
            "SELECT p.directory, p.name, p.id FROM unnest(?::bigint[], ?::bigint[]) AS u(directory, name)"
            " JOIN path p ON p.name = u.name AND p.directory = u.directory",
            _turned(pairs, 2),
        )
        return {(row[0], row[1]): row[2] for row in found}

    def find_versions(self, keys: Sequence[VersionKey]) -> dict[VersionKey, int]:
        found = self.rows(
            "SELECT v.path, v.owner, v.size, v.mtime, v.link, v.content, v.flags, v.id"
            " FROM unnest(?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bytea[], ?::bigint[], ?::bigint[])"
            " AS u(path, owner, size, mtime, link, content, flags)"
            " JOIN version v ON v.path = u.path AND v.owner = u.owner AND v.size = u.size AND v.mtime = u.mtime"
            " AND v.link = u.link AND v.content = u.content AND v.flags = u.flags",
            _turned(keys, 7),
        )
        return {VersionKey(*row[:7]): row[7] for row in found}

    def exact_versions_like(self, keys: Sequence[VersionKey]) -> list[tuple[VersionKey, int, bytes]]:
        found = self.rows(
            "SELECT u.place, v.id, v.link FROM unnest(?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[])"
            " WITH ORDINALITY AS u(path, owner, size, mtime, place)"
            " JOIN version v ON v.path = u.path AND v.owner = u.owner AND v.size = u.size AND v.mtime = u.mtime"
            " AND v.flags = 0",
            _turned([key[:4] for key in keys], 4),
        )
        return [(keys[row[0] - 1], row[1], row[2]) for row in found]

    def names_like(self, parts: Sequence[str], after: int, limit: int) -> list[tuple[int, bytes]]:
        return self._like("name", "name", parts, after, limit)

    def directories_like(self, parts: Sequence[str], after: int, limit: int) -> list[tuple[int, bytes]]:
        return self._like("directory", "path", parts, after, limit)

    def _like(self, table: str, column: str, parts: Sequence[str], after: int, limit: int) -> list[tuple[int, bytes]]:
        found = self.rows(
            f"SELECT id, {column} FROM {table} WHERE id > ? AND folded LIKE ? ORDER BY id LIMIT ?",  # noqa: S608
            (after, _pattern(parts), limit),
        )
        return [(row[0], row[1]) for row in found]


def _turned(rows: Sequence[Sequence[object]], width: int) -> tuple[list[object], ...]:
    """Given rows, return columns."""
    return tuple([row[place] for row in rows] for place in range(width))


def _pattern(parts: Sequence[str]) -> str:
    escaped = (part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") for part in parts)
    return "%" + "%".join(escaped) + "%"


class PostgresTransaction(PostgresSnapshot):
    def _execute(self, statement: str, parameters: Sequence[object] = ()) -> None:
        self._connection.execute(_percent_style(statement).encode(), parameters)

    def set_meta(self, key: str, value: bytes) -> None:
        self._execute(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value)
        )

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        columns = TABLES[table]
        if table == "name":
            rows = [(*row[:3], _text(row[2])) for row in rows]
        elif table == "directory":
            columns = (*columns, "folded")
            rows = [(*row, _text(row[2], b"/")) for row in rows]
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
            sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
        )
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([_type(table, column) for column in columns])
            for row in rows:
                copy.write_row(row)

    def put_column(self, kind: int, chunks: Sequence[tuple[int, bytes]]) -> None:
        self._execute(
            "INSERT INTO numbers SELECT * FROM unnest(?::bigint[], ?::bytea[])"
            " ON CONFLICT (id) DO UPDATE SET data = excluded.data",
            ([column_id(kind, chunk) for chunk, _ in chunks], [data for _, data in chunks]),
        )

    def put_archive(self, row: ArchiveRow, bits: Sequence[tuple[int, bytes]]) -> None:
        self._execute("INSERT INTO archive VALUES (?, ?, ?, ?, ?, ?)", (*row[:4], int(row.lossy), row.excludes))
        self._execute(
            "INSERT INTO bits SELECT * FROM unnest(?::bigint[], ?::bytea[])",
            ([bits_id(chunk, row.id) for chunk, _ in bits], [data for _, data in bits]),
        )

    def delete_archive(self, archive: int, chunks: Iterable[int]) -> None:
        self._execute("DELETE FROM archive WHERE id = ?", (archive,))
        self._execute("DELETE FROM state WHERE archive = ?", (archive,))
        self._execute("DELETE FROM comparison WHERE after = ? OR before = ?", (archive, archive))
        self._execute("DELETE FROM bits WHERE id {in}", ([bits_id(chunk, archive) for chunk in chunks],))

    def put_comparison(self, before: int, after: int, data: bytes) -> None:
        self._execute(
            "INSERT INTO comparison VALUES (?, ?, ?)"
            " ON CONFLICT (after) DO UPDATE SET before = excluded.before, data = excluded.data",
            (after, before, data),
        )

    def put_state(self, series: str, archive: int, data: bytes) -> None:
        self._execute(
            "INSERT INTO state VALUES (?, ?, ?)"
            " ON CONFLICT (series) DO UPDATE SET archive = excluded.archive, data = excluded.data",
            (series, archive, data),
        )

    def delete(self, table: str, ids: Sequence[int]) -> None:
        self._execute(f"DELETE FROM {table} WHERE id {{in}}", (list(ids),))  # noqa: S608 - our own table names

    def delete_unused_names(self, names: Sequence[int]) -> int:
        unused = self.rows(
            "DELETE FROM name WHERE id = ANY(?::bigint[])"
            " AND NOT EXISTS (SELECT 1 FROM path WHERE path.name = name.id) RETURNING id",
            (list(names),),
        )
        return len(unused)


def _text(raw: object, before: bytes = b"") -> str:
    assert isinstance(raw, bytes)
    return rendered(before + raw)


def _type(table: str, column: str) -> str:
    if column in _TEXTS:
        return "text"
    return _TYPES.get(column, {}).get(table, "int8")


class PostgresStore:
    """The store in a schema that `create` has made, on a pool of connections.

    The pool belongs to the caller and may serve any number of indexes. An ingest takes one connection for its right to
    write, and a second one for short transactions.
    """

    def __init__(self, pool: Pool, schema: str) -> None:
        self._pool = pool
        self.schema = _checked(schema)
        with self.read() as snapshot:
            meta = snapshot.meta()
        if not {"generation", "secret", "version"} <= meta.keys():
            raise errors.IndexDamaged(f"{schema} lacks its own description")
        if int(meta["version"]) != SCHEMA_VERSION:
            raise errors.IndexVersionMismatch(
                f"{schema} has version {int(meta['version'])}, this code writes {SCHEMA_VERSION}"
            )
        self.generation = meta["generation"].decode()

    @classmethod
    def create(cls, pool: Pool, schema: str) -> "PostgresStore":
        """Create a schema with an empty index. Raise IndexBusy if the schema exists."""
        with named_errors(_checked(schema)), pool.connection() as connection:
            try:
                _fill(connection, schema)
            except (pg.DuplicateSchema, pg.UniqueViolation) as error:
                raise errors.IndexBusy(f"a history index is already in {schema}") from error
        return cls(pool, schema)

    @contextmanager
    def read(self) -> Iterator[PostgresSnapshot]:
        with self._transaction(_READ) as connection:
            yield PostgresSnapshot(connection)

    @contextmanager
    def write(self) -> Iterator[PostgresTransaction]:
        with self._transaction(_WRITE) as connection:
            yield PostgresTransaction(connection)

    @contextmanager
    def _transaction(self, settings: str) -> Iterator[Connection]:
        with named_errors(self.schema), self._pool.connection() as connection, connection.transaction():
            connection.execute(f"{settings}; {_search_path(self.schema)}".encode())
            yield connection

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with sole_holder(self._pool, self.schema) as is_ours:
            if not is_ours:
                raise errors.IndexBusy(f"the history index {self.schema} is being written by another ingest")
            yield

    def size(self) -> int:
        return schema_size(self._pool, self.schema)

    def damage(self) -> list[str]:
        """Check that everything can be read; PostgreSQL checks its own pages."""
        with self.read() as snapshot:
            for table in (*TABLES, "numbers", "bits", "state", "archive"):
                snapshot.count(table)
        return []

    def close(self) -> None:
        """Do nothing: the pool belongs to the caller."""

    def retire(self) -> None:
        """Do nothing, like `close`."""

    def destroy(self) -> None:
        destroy(self._pool, self.schema)


def destroy(pool: Pool, schema: str) -> None:
    """Remove an index in any state, if there is one."""
    with named_errors(schema), pool.connection() as connection:
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))


def generation_in(pool: Pool, schema: str) -> str | None:
    """Return the generation of the index in a schema; None if there is no index, or it has no generation."""
    question = sql.SQL("SELECT value FROM {}.meta WHERE key = 'generation'").format(sql.Identifier(schema))
    try:
        with named_errors(schema), pool.connection() as connection:
            row = connection.execute(question).fetchone()
    except errors.IndexMissing:
        return None
    return bytes(row[0]).decode() if row is not None and isinstance(row[0], bytes) else None


def schema_exists(pool: Pool, schema: str) -> bool:
    with named_errors(schema), pool.connection() as connection:
        return connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone() is not None


def schema_size(pool: Pool, schema: str) -> int:
    """Return the bytes of everything that belongs to an index; 0 if there is none."""
    question = (
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'"
    )
    with named_errors(schema), pool.connection() as connection:
        row = connection.execute(question, (schema,)).fetchone()
    return int(str(row[0])) if row is not None else 0


@contextmanager
def sole_holder(pool: Pool, what: str) -> Iterator[bool]:
    """Hold a right among all processes during the block; it ends with the connection. Yield False if taken."""
    key = int.from_bytes(hashlib.blake2b(what.encode(), digest_size=8).digest(), "big", signed=True)
    with named_errors(what), pool.connection() as connection:
        connection.autocommit = True
        try:
            row = connection.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone()
            if row is None or not row[0]:
                yield False
                return
            try:
                yield True
            finally:
                if not connection.closed:
                    connection.execute("SELECT pg_advisory_unlock(%s)", (key,))
        finally:
            if not connection.closed:
                connection.autocommit = False


def _checked(schema: str) -> str:
    if not _NAME.fullmatch(schema):
        raise ValueError(f"not a name for a schema: {schema!r}")
    return schema


def _search_path(schema: str) -> str:
    # Extensions are in "public"; the index's own tables are found first.
    return f"SET LOCAL search_path TO {schema}, public"


def _fill(connection: Connection, schema: str) -> None:
    with connection.transaction():
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        connection.execute(_search_path(schema).encode())
        for statement in postgres_tables():
            connection.execute(statement.encode())
        _add_text_search(connection)
        transaction = PostgresTransaction(connection)
        transaction.set_meta("generation", secrets.token_hex(16).encode())
        transaction.set_meta("secret", secrets.token_bytes(32))
        transaction.set_meta("version", str(SCHEMA_VERSION).encode())
        transaction.insert("directory", [(ROOT_ID, key32(ROOT), ROOT)])


def _add_text_search(connection: Connection) -> None:
    """Add trigram indexes if the extension is available; otherwise names are searched one by one."""
    try:
        with connection.transaction():
            for statement in postgres_search():
                connection.execute(statement.encode())
    except (pg.UndefinedFile, pg.FeatureNotSupported, pg.InsufficientPrivilege, pg.UndefinedObject):
        return
