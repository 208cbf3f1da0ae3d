"""Make each process of an installation prove at its start that it uses the installation's data folder.

Calls of agents, spools, logs and keys are files. A process with a different folder would start, but then fail on
everything that another process has begun. So an id is stored both in the store and in the folder, and the two must be
equal.
"""

import os
import uuid
from pathlib import Path

from holdfast.operations import limits
from holdfast.operations.models import KernelSetting
from holdfast.storage.inserts import conflict_aware_insert
from holdfast.storage.session import Database

FILE = "data-folder-id"
SETTING = "data_folder_id"


class FolderNotShared(Exception):
    """The data folder of this process is not that of the installation."""


def require_shared(database: Database, folder: Path) -> None:
    """Raise FolderNotShared, changing nothing, if this store's other processes use another data folder.

    With SQLite, the store is in the folder itself. Otherwise the first start with a store binds it to its folder.
    """
    if database.is_sqlite:
        return
    known = _known(database)
    if known is None:
        known = _bound(database, _own(folder) or _made(folder))
    if _own(folder) != known:
        raise FolderNotShared(
            f"The data folder {folder} is not the one used by this installation's other processes. Nothing was "
            f"changed. Mount the shared folder here; if this folder replaces it permanently, run: holdfast admin "
            f"adopt-data-folder"
        )


def adopt(database: Database, folder: Path) -> None:
    """Make this folder the installation's own, in place of one that was lost."""
    own = _own(folder) or _made(folder)
    with database.writing() as session:
        limits.put(session, SETTING, own)


def _known(database: Database) -> str | None:
    with database.reading() as session:
        return limits.get(session, SETTING)


def _bound(database: Database, own: str) -> str:
    """Bind the store to a folder; return the id it is bound to, which another process may have set first."""
    with database.writing() as session:
        values = {"name": SETTING, "value": own}
        session.execute(conflict_aware_insert(session, KernelSetting).values(values).on_conflict_do_nothing())
    return _known(database) or own


def _own(folder: Path) -> str | None:
    try:
        return (folder / FILE).read_text().strip() or None
    except FileNotFoundError:
        return None


def _made(folder: Path) -> str:
    """Create the id of a folder. If several processes try at the same time, all return the same id."""
    own = uuid.uuid4().hex
    part = folder / f"{FILE}.{own}"
    part.write_text(own + "\n")
    try:
        os.link(part, folder / FILE)
    except FileExistsError:
        pass
    finally:
        part.unlink()
    return _own(folder) or own
