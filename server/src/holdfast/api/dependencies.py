"""What a route may ask for.

What only looks something up is `async`: the framework sends everything else to a thread of its own, at every request.
"""

from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.orm import Session

from holdfast.api.turns import ReadTurn, WriteTurn
from holdfast.settings import Settings
from holdfast.storage.session import Database


async def the_database(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


async def the_settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def _reading(request: Request, _turn: ReadTurn) -> Iterator[Session]:
    database: Database = request.app.state.database
    with database.reading() as session:
        yield session


def _writing(request: Request, _turn: WriteTurn) -> Iterator[Session]:
    database: Database = request.app.state.database
    # Not locked before the route runs: nobody else should wait while this request waits for a thread.
    with database.writing(lock_at_once=False) as session:
        yield session


TheDatabase = Annotated[Database, Depends(the_database)]
TheSettings = Annotated[Settings, Depends(the_settings)]
# scope="function": the transaction ends before the answer is sent, so an answer always speaks of what is durable.
Reading = Annotated[Session, Depends(_reading, scope="function")]
Writing = Annotated[Session, Depends(_writing, scope="function")]
