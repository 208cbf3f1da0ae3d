"""The service's own places on a machine. They are left out of backups unless an admin includes them; in archives only
admins can read them; and they are never a destination of restores.

Each process stores its places, so that they remain known after the data folder is moved, and so that the other
processes of an installation know them. Only this file decides what the places are.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends
from sqlalchemy import String, UniqueConstraint, select
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Mapped, Session, mapped_column

from backup_engine.frozen import frozen
from backup_engine.own_places import OwnPlaces, current_mounts, is_at_or_in, normal
from backup_engine.protected_places import ProtectedPlaces
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.api.parts import Part
from holdfast.errors import Conflict, Forbidden, Unprocessable
from holdfast.kit import clock
from holdfast.repositories.models import Repository
from holdfast.runner.identity import machine_id
from holdfast.settings import Settings
from holdfast.storage.base import NEVER_REUSED, NumberedRow
from holdfast.storage.inserts import insert_unless_there
from holdfast.storage.session import Database

PROCESSES = "proc"
"""The type of file system that exposes the memory and environment of processes, including keys."""


class StoredPlace(NumberedRow):
    """A path under which a process of this installation keeps, or once kept, its own data."""

    __tablename__ = "own_places"

    machine: Mapped[str] = mapped_column(String(200))
    path: Mapped[str]
    first_seen: Mapped[datetime]

    __table_args__ = (UniqueConstraint("machine", "path"), NEVER_REUSED)


@frozen
class HiddenPaths:
    """The part of a repository's archives that a caller may not read: archived names, each with everything below it."""

    names: tuple[bytes, ...] = ()

    def hides(self, path: bytes) -> bool:
        path = path.strip(b"/")
        return any(path == name or path.startswith(name + b"/") for name in self.names)

    def require_visible(self, paths: Iterable[bytes]) -> None:
        """Raise Forbidden if one of the paths is hidden."""
        if any(self.hides(path) for path in paths):
            raise Forbidden(
                "archives.admins_only",
                "This path contains the service's own data and keys; only admins can read it.",
            )

    def below(self, path: bytes) -> tuple[bytes, ...]:
        """Return the hidden names below a folder of the archive; an empty path is the whole archive."""
        above = path.strip(b"/") + b"/" if path.strip(b"/") else b""
        return tuple(name for name in self.names if name.startswith(above))


NOTHING_HIDDEN = HiddenPaths()


class ServicePlaces:
    """The places of this process, and those stored by others."""

    def __init__(self, settings: Settings) -> None:
        data = settings.data_dir.absolute()
        key_file = settings.secret_key_file.absolute() if settings.secret_key_file else data / "secret.key"
        toml = settings.model_config.get("toml_file")
        configuration = [Path(str(toml)).absolute()] if toml and Path(str(toml)).exists() else []
        self._files = (key_file, *_database_files(settings), *configuration)
        self._folders = (data,)
        self._secrets = (*self._files, data, data / "ssh", settings.engine_dir.absolute() / ".config/borg/keys")

    def store(self, database: Database) -> None:
        """Store this process's places for other processes. Known ones are not written again."""
        with database.reading() as session:
            known = set(self._stored(session))
        new = [path for path in self._own() if path not in known]
        if not new:
            return
        with database.writing() as session:
            for path in new:
                values = {"machine": machine_id(), "path": path, "first_seen": clock.now()}
                insert_unless_there(session, StoredPlace, values)

    def here(self, session: Session) -> OwnPlaces:
        """Return all places of this machine, under all their names."""
        mounts = current_mounts()
        processes = [mount.point for mount in mounts if mount.kind == PROCESSES]
        return OwnPlaces(
            [*self._own(), *self._stored(session), *processes], secrets=map(str, self._secrets), mounts=mounts
        )

    def guard(self, session: Session) -> ProtectedPlaces:
        """Return places on this machine that no restore may write to: the service's own, and local repositories."""
        here = [Repository.path, Repository.identity]
        statement = select(*here).where(Repository.execution_target == "local", Repository.path.startswith("/"))
        repositories = {path for row in session.execute(statement) for path in row}
        return ProtectedPlaces(
            os.fsencode(path) for path in (*self._own(), *self._stored(session), *sorted(repositories))
        )

    def identities(self) -> list[dict[str, Any]]:
        """Return the service's own places with device and inode, so that another program can recognise this machine."""
        found = []
        for path in self._own():
            with suppress(OSError):
                status = Path(path).stat()
                found.append({"path": path, "device": status.st_dev, "inode": status.st_ino})
        return found

    @staticmethod
    def may_hide_paths(caller: Caller, execution_target: str) -> bool:
        """Whether archives of a repository with this target can have a part that the caller may not read."""
        return caller.role is not Role.ADMIN and execution_target == "local"

    def hidden_paths(self, session: Session, caller: Caller, repository: Repository) -> HiddenPaths:
        """Return what the caller may not read in archives made on this machine: the service's own places."""
        if not self.may_hide_paths(caller, repository.execution_target):
            return NOTHING_HIDDEN
        elsewhere = session.scalars(select(StoredPlace.path)).all()
        names = {path.lstrip("/") for path in elsewhere}
        names.update(self.here(session).archived_names(repository.source_paths))
        return HiddenPaths(tuple(sorted(os.fsencode(name) for name in names if name)))

    def admitted(
        self, session: Session, execution_target: str, sources: Sequence[str], before: Iterable[str], *, confirmed: bool
    ) -> list[str]:
        """Given the sources of a repository, return those among the service's own places that an admin has confirmed.

        Raise Conflict if one is not confirmed, and Unprocessable if one is spelled so that archives would not reveal
        what it is.
        """
        if execution_target != "local":
            return []
        places = self.here(session)
        own = [source for source in sources if places.holds(source)]
        known = set(before)
        new = [source for source in own if source not in known]
        if new and not confirmed:
            raise _unconfirmed(new)
        for source in new:
            _require_real_name(source, places)
        return own

    def _own(self) -> list[str]:
        paths = [str(path) for path in (*self._folders, *self._files)]
        return list(dict.fromkeys([*map(normal, paths), *map(os.path.realpath, paths)]))

    def _stored(self, session: Session) -> list[str]:
        return list(session.scalars(select(StoredPlace.path).where(StoredPlace.machine == machine_id())))


OWN_PLACES = Part[ServicePlaces]("own_places")
ThePlaces = Annotated[ServicePlaces, Depends(OWN_PLACES)]


def _database_files(settings: Settings) -> list[Path]:
    url = make_url(settings.store_url)
    if not url.drivername.startswith("sqlite") or not url.database:
        return []
    file = Path(url.database).absolute()
    return [file.with_name(file.name + ending) for ending in ("", "-wal", "-shm", "-journal")]


def _unconfirmed(sources: list[str]) -> Conflict:
    return Conflict(
        "repository.own_places_unconfirmed",
        "These sources contain the service's own data and keys: anyone who opens the repository can read every secret "
        "of "
        "this"
        " installation. Send own_places_confirmed: true to back them up; only admins can then read them in archives.",
        sources=sources[:10],
    )


def _require_real_name(source: str, places: OwnPlaces) -> None:
    real = os.path.realpath(source)
    if source == real and any(is_at_or_in(source, place) for place in places.places):
        return
    raise Unprocessable(
        "repository.own_place_other_name",
        "This source leads to the service's own data through another path. Use its real path.",
        source=source,
        path=real,
    )
