"""Database fields that requests, jobs and dumps have in common."""

from backup_engine.frozen import frozen


@frozen
class NamedDatabase:
    """``name`` is the name in Holdfast, and the base name of the file in the archive."""

    name: str
    kind: str
    """One of ``KINDS`` in ``dumps``."""
    database: str | None = None
    """Name on the server, or path of the SQLite file."""
    host: str | None = None
    """Host name, or the folder (PostgreSQL) or file (MySQL) of a socket."""
    port: int | None = None
    user: str | None = None
