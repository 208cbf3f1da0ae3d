"""Dependencies of routes.

Pure lookups are `async`; all others run in the route's thread.
"""

from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.orm import Session

from holdfast.api.parts import Part
from holdfast.api.threads import Work
from holdfast.kit.supervisor import Supervisor
from holdfast.settings import Settings
from holdfast.storage.session import Database

SETTINGS = Part[Settings]("settings")
DATABASE = Part[Database]("database")
SUPERVISOR = Part[Supervisor]("supervisor")


def _reading(request: Request) -> Iterator[Session]:
    with DATABASE.of(request.app).reading() as session:
        yield session


def _writing(request: Request) -> Iterator[Session]:
    # The write lock is taken with the first statement, so that the route's work before it delays no other writer.
    with DATABASE.of(request.app).writing(lock_at_once=False) as session:
        yield session


WORK: dict[object, Work] = {_reading: "reading", _writing: "writing"}
"""Which threads run a route that has one of these dependencies."""

TheDatabase = Annotated[Database, Depends(DATABASE)]
TheSettings = Annotated[Settings, Depends(SETTINGS)]
# scope="function" ends the transaction before the response is sent, so a response reports only committed changes.
Reading = Annotated[Session, Depends(_reading, scope="function")]
Writing = Annotated[Session, Depends(_writing, scope="function")]
