"""What a request, a job and a dump say alike about a database."""

from backup_engine.frozen import frozen


@frozen
class NamedDatabase:
    """``name`` is its name in Holdfast, and that of its file in the archive."""

    name: str
    kind: str
    """One of ``KINDS`` in ``dumps``."""
    database: str | None = None
    """Name on the server, or path of the SQLite file."""
    host: str | None = None
    """A host name, or the folder (PostgreSQL) or file (MySQL) of a socket."""
    port: int | None = None
    user: str | None = None
