"""The file with the first admin's random password. It is removed when that password is changed."""

import os
from functools import partial
from pathlib import Path

from sqlalchemy.orm import Session

from holdfast.settings import Settings
from holdfast.storage.session import after_commit


def path(settings: Settings) -> Path:
    return settings.data_dir / "initial-admin-password"


def write(settings: Settings, password: str) -> Path:
    """Write the password to a durable file that only the owner of the data folder can read."""
    target = path(settings)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    target.unlink(missing_ok=True)  # from an unfinished first start; a link is never followed
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(password + "\n")
        opened.flush()
        os.fsync(opened.fileno())
    return target


def remove(settings: Settings) -> None:
    path(settings).unlink(missing_ok=True)


def remove_after_commit(session: Session, settings: Settings) -> None:
    after_commit(session, partial(remove, settings))
