"""The dependencies of routes.

Pure lookups are `async`: everything else is called in the route's thread.
"""

from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.orm import Session

from holdfast.api.threads import Work
from holdfast.settings import Settings
from holdfast.storage.session import Database


async def the_database(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


async def the_settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def _reading(request: Request) -> Iterator[Session]:
    database: Database = request.app.state.database
    with database.reading() as session:
        yield session


def _writing(request: Request) -> Iterator[Session]:
    database: Database = request.app.state.database
    # Not locked before the route runs: its work before the first statement delays no other writer.
    with database.writing(lock_at_once=False) as session:
        yield session


WORK: dict[object, Work] = {_reading: "reading", _writing: "writing"}
"""The threads in which a route with one of these dependencies runs."""

TheDatabase = Annotated[Database, Depends(the_database)]
TheSettings = Annotated[Settings, Depends(the_settings)]
# scope="function": the transaction ends before the answer is sent, so an answer only reports durable changes.
Reading = Annotated[Session, Depends(_reading, scope="function")]
Writing = Annotated[Session, Depends(_writing, scope="function")]
