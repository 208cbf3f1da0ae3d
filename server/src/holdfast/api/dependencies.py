"""What a route may ask for.

What only looks something up is `async`: everything else is called in the route's thread.
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
    # Not locked before the route runs: what it does before its first statement keeps nobody else waiting.
    with database.writing(lock_at_once=False) as session:
        yield session


WORK: dict[object, Work] = {_reading: "reading", _writing: "writing"}
"""In whose threads a route runs that asks for one of these."""

TheDatabase = Annotated[Database, Depends(the_database)]
TheSettings = Annotated[Settings, Depends(the_settings)]
# scope="function": the transaction ends before the answer is sent, so an answer always speaks of what is durable.
Reading = Annotated[Session, Depends(_reading, scope="function")]
Writing = Annotated[Session, Depends(_writing, scope="function")]
