"""Checks before the service creates anything: the address, the data folder and the store.

Each check raises CannotStart with a sentence and an exit code (docs/cli.md). None of them creates a file or folder.
"""

import errno
import os
import socket
from pathlib import Path

from sqlalchemy import create_engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from holdfast.access.first_admin import chosen_password
from holdfast.access.vault import check_key
from holdfast.errors import HoldfastError
from holdfast.settings import Settings

EXIT_BUSY = 75
EXIT_UNUSABLE = 78
CONNECT_SECONDS = 10
SUPPORTED_STORES = ("sqlite", "postgresql+psycopg")


class CannotStart(Exception):
    """The service cannot start. The sentence explains why and what to do."""

    def __init__(self, sentence: str, code: int = EXIT_UNUSABLE) -> None:
        super().__init__(f"{sentence.rstrip('.')}.")
        self.code = code


def check_role(settings: Settings) -> None:
    if settings.role != "all" and not settings.database_url:
        raise CannotStart("--role api and --role runner share a PostgreSQL store; set HOLDFAST_DATABASE_URL.")


def check_secrets(settings: Settings) -> None:
    """Check that the key for secrets and the first admin's password are usable."""
    try:
        check_key(settings)
        chosen_password(settings)
    except HoldfastError as error:
        raise CannotStart(error.message) from error
    except OSError as error:
        raise CannotStart(f"The key file {error.filename} cannot be read: {error.strerror}.") from error


# --- the address ----------------------------------------------------------------------------------------------------


def bind(host: str, port: int) -> socket.socket:
    """Bind the address. Nobody can connect until `listen`, because the store may have to be migrated first."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise no_address(host, port, error) from error
    return bound


def no_address(host: str, port: int, error: OSError) -> CannotStart:
    if error.errno == errno.EADDRINUSE:
        advice = "another program is listening there; stop it, or choose another --port (make run PORT=9000)"
        return CannotStart(f"Cannot listen on {host}:{port}: {advice}.", EXIT_BUSY)
    if isinstance(error, socket.gaierror):
        return CannotStart(f"Cannot listen on {host}:{port}: no such host; choose another --host.")
    if error.errno == errno.EADDRNOTAVAIL:
        return CannotStart(f"Cannot listen on {host}:{port}: this machine does not have that address.")
    if error.errno == errno.EACCES:
        advice = "this user is not allowed to use that port; choose 1024 or higher"
        return CannotStart(f"Cannot listen on {host}:{port}: {advice}.")
    return CannotStart(f"Cannot listen on {host}:{port}: {error.strerror}.")


# --- the data folder ------------------------------------------------------------------------------------------------


def check_data_dir(folder: Path) -> None:
    """Check that the folder is writable or can be created, without creating anything."""
    try:
        _check_data_dir(folder.absolute())
    except OSError as error:
        raise bad_data_dir(folder, error) from error


def _check_data_dir(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "it is a file, not a folder")
    nearest = folder
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, f"{nearest} is a file, not a folder")
    if not os.access(nearest, os.W_OK | os.X_OK, effective_ids=True):
        raise PermissionError(errno.EACCES, _reason_against_writing(nearest))
    if nearest == folder and os.geteuid() not in (0, folder.stat().st_uid):
        raise PermissionError(errno.EPERM, "it belongs to another user")


def _reason_against_writing(folder: Path) -> str:
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        return f"{folder} is on a read-only file system"
    return f"{folder} cannot be written to by this user"


def bad_data_dir(folder: Path, error: OSError) -> CannotStart:
    return CannotStart(f"The data folder {folder} cannot be used: {error.strerror}; choose another --data-dir.")


# --- the store ------------------------------------------------------------------------------------------------------


def check_store(settings: Settings) -> None:
    """Check that the store's address has a supported form and that a PostgreSQL server answers there."""
    if not settings.database_url:
        return
    try:
        url = make_url(settings.database_url)
    except ArgumentError as error:
        form = "postgresql+psycopg://user:password@host/database"
        raise CannotStart(f"HOLDFAST_DATABASE_URL is not a database URL; the format is {form}.") from error
    if url.drivername not in SUPPORTED_STORES:
        known = " or ".join(f"{name}://" for name in reversed(SUPPORTED_STORES))
        raise CannotStart(f"HOLDFAST_DATABASE_URL begins with {url.drivername}://; use {known}.")
    if url.get_backend_name() == "sqlite":
        return
    engine = create_engine(url, connect_args={"connect_timeout": CONNECT_SECONDS})
    try:
        engine.connect().close()
    except SQLAlchemyError as error:
        raise bad_store(settings, error) from error
    finally:
        engine.dispose()


def bad_store(settings: Settings, error: SQLAlchemyError | NoSuchModuleError) -> CannotStart:
    """The error as a sentence without the password: drivers name only the user, host and database."""
    reason = _first_line(getattr(error, "orig", None) or error)
    if settings.database_url and not settings.store_url.startswith("sqlite"):
        advice = "check that PostgreSQL is running there, and check HOLDFAST_DATABASE_URL"
        return CannotStart(f"The PostgreSQL store cannot be used ({reason}); {advice}.")
    place = make_url(settings.store_url).database
    return CannotStart(f"The store {place} cannot be used ({reason}); nothing in it was changed.")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")
