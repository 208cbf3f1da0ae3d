"""The dependencies of routes.

Pure lookups are `async`: everything else is called in the route's thread.
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
    # Not locked before the route runs: its work before the first statement delays no other writer.
    with DATABASE.of(request.app).writing(lock_at_once=False) as session:
        yield session


WORK: dict[object, Work] = {_reading: "reading", _writing: "writing"}
"""The threads in which a route with one of these dependencies runs."""

TheDatabase = Annotated[Database, Depends(DATABASE)]
TheSettings = Annotated[Settings, Depends(SETTINGS)]
# scope="function": the transaction ends before the answer is sent, so an answer only reports durable changes.
Reading = Annotated[Session, Depends(_reading, scope="function")]
Writing = Annotated[Session, Depends(_writing, scope="function")]
