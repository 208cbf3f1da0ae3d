"""The tables of an index, the same on SQLite (one file per repository) and PostgreSQL (one schema per repository)."""

SCHEMA_VERSION = 2
APPLICATION_ID = 0x486F4869  # "HoHi" in the header of the file
ROOT_ID = 1  # the directory that contains the first component of every path

# Tables and their columns, in the order in which `insert` takes them.
TABLES = {
    "directory": ("id", "hash", "path"),
    "name": ("id", "hash", "name", "folded"),
    "owner": ("id", "mode", "uid", "gid", "username", "groupname"),
    "path": ("id", "directory", "name"),
    "version": ("id", "path", "owner", "size", "mtime", "link", "content", "flags"),
}

# Numeric columns, stored next to the rows in chunks of 8192, so that set algebra never reads rows.
VERSION_PATH = 1  # path id of a version; 0 if the id is free
VERSION_TWIN = 2  # of an exact version: the version of the same file in the CLI listing
VERSION_LINK = 6  # of a hard link: path id of the name with the content
PATH_DIRECTORY = 3
DIRECTORY_PARENT = 4
DIRECTORY_ENTRY = 5  # path id of the directory's own entry; 0 for the root
VERSION_CHUNK = 7  # of a file with known chunks: the number of the first
CHUNK_KEY = 8  # the first 8 bytes of a chunk's id
CHUNK_REST = 9  # the other 24
CHUNK_SIZE = 10  # of its content; 0 if the number is free
CHUNK_STORED = 11  # bytes in the repository; 0 if the engine does not report them
CHUNK_SEGMENT = 12  # one more than the segment that contained it when it was indexed; 0 if unknown
MORE_CHUNKS = 13  # by version, not by block: the numbers of its further chunks
VERSION_BYTES = 14  # one more than the bytes that a version adds to its folder's size; 0 if the id is free
KEYS = 16  # + record format: key of the last record with this version

COLUMN_TYPES = {VERSION_PATH: "<u4", VERSION_TWIN: "<u4", PATH_DIRECTORY: "<u4", DIRECTORY_PARENT: "<u4"}
COLUMN_TYPES |= {DIRECTORY_ENTRY: "<u4", VERSION_LINK: "<u4", KEYS + 1: "<u8", KEYS + 2: "<u8"}
COLUMN_TYPES |= {VERSION_CHUNK: "<u4", CHUNK_KEY: "<u8", CHUNK_REST: "V24"}
COLUMN_TYPES |= {VERSION_BYTES: "<u8"}
COLUMN_TYPES |= {CHUNK_SIZE: "<u4", CHUNK_STORED: "<u4", CHUNK_SEGMENT: "<u4"}

_TABLES_SQL = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value {blob} NOT NULL);
CREATE TABLE archive(id {id} PRIMARY KEY, engine_id TEXT NOT NULL UNIQUE, entries {int} NOT NULL, route TEXT NOT NULL,
    lossy {int} NOT NULL, excludes {blob} NOT NULL);
CREATE TABLE directory(id {id} PRIMARY KEY, hash {int} NOT NULL, path {blob} NOT NULL);
CREATE TABLE name(id {id} PRIMARY KEY, hash {int} NOT NULL, name {blob} NOT NULL, folded TEXT);
CREATE TABLE owner(id {id} PRIMARY KEY, mode {int} NOT NULL, uid {int} NOT NULL, gid {int} NOT NULL, username TEXT,
    groupname TEXT);
CREATE TABLE path(id {id} PRIMARY KEY, directory {int} NOT NULL, name {int} NOT NULL);
CREATE TABLE version(id {id} PRIMARY KEY, path {int} NOT NULL, owner {int} NOT NULL, size {int} NOT NULL,
    mtime {int} NOT NULL, link {blob} NOT NULL, content {int} NOT NULL, flags {int} NOT NULL);
CREATE TABLE numbers(id {id} PRIMARY KEY, data {blob} NOT NULL);
CREATE TABLE bits(id {id} PRIMARY KEY, data {blob} NOT NULL);
CREATE TABLE comparison(after {id} PRIMARY KEY, before {int} NOT NULL, data {blob} NOT NULL);
CREATE TABLE state(series TEXT PRIMARY KEY, archive {int} NOT NULL, data {blob} NOT NULL);
CREATE INDEX directory_hash ON directory(hash);
CREATE INDEX name_hash ON name(hash);
CREATE UNIQUE INDEX path_name ON path(name, directory);
CREATE INDEX path_directory ON path(directory);
CREATE INDEX version_path ON version(path);
CREATE INDEX version_implicit ON version(id) WHERE flags = 1;
"""

_SEARCH_SQLITE = """
CREATE VIRTUAL TABLE name_text USING fts5(name, content='', tokenize='trigram', detail=none, columnsize=0);
CREATE VIRTUAL TABLE directory_text USING fts5(path, content='', tokenize='trigram', detail=none, columnsize=0);
"""

# Numbers and bits are already compressed; every name has its text, for the trigram index.
_MORE_POSTGRES = """
ALTER TABLE directory ADD COLUMN folded TEXT;
ALTER TABLE numbers ALTER COLUMN data SET STORAGE EXTERNAL;
ALTER TABLE bits ALTER COLUMN data SET STORAGE EXTERNAL;
ALTER TABLE comparison ALTER COLUMN data SET STORAGE EXTERNAL;
ALTER TABLE state ALTER COLUMN data SET STORAGE EXTERNAL;
"""

_SEARCH_POSTGRES = """
CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public;
CREATE INDEX name_text ON name USING gin (folded gin_trgm_ops);
CREATE INDEX directory_text ON directory USING gin (folded gin_trgm_ops);
"""


def sqlite_tables() -> list[str]:
    return _statements(_TABLES_SQL.format(id="INTEGER", int="INTEGER", blob="BLOB"))


def sqlite_search() -> list[str]:
    return _statements(_SEARCH_SQLITE)


def postgres_tables() -> list[str]:
    return _statements(_TABLES_SQL.format(id="BIGINT", int="BIGINT", blob="BYTEA") + _MORE_POSTGRES)


def postgres_search() -> list[str]:
    return _statements(_SEARCH_POSTGRES)


def _statements(text: str) -> list[str]:
    return [statement for statement in text.split(";\n") if statement.strip()]


def column_id(kind: int, chunk: int) -> int:
    return kind << 32 | chunk


def bits_id(chunk: int, archive: int) -> int:
    """Return the row id. Bits of the same ids are adjacent for all archives, so a path's history is read in one go."""
    return chunk << ARCHIVE_BITS | archive


ARCHIVE_BITS = 24
ARCHIVE_MASK = (1 << ARCHIVE_BITS) - 1
