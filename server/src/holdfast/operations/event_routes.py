"""HTTP for live events."""

import asyncio
import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Annotated

from fastapi import Depends, Header, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from holdfast.access import rights
from holdfast.access.caller import (
    BearerHeader,
    Caller,
    PreferredHeader,
    SignedInToRead,
    guard,
    signed_in_even_if_password_must_change,
    still_valid,
    with_final_password,
)
from holdfast.access.roles import Role
from holdfast.access.vault import SecretUnreadable, TheVault
from holdfast.api.answers import documented, shape
from holdfast.api.authenticated_connections import mark_authenticated
from holdfast.api.dependencies import TheDatabase, TheSettings
from holdfast.api.errors import error_answer
from holdfast.api.filters import MOST
from holdfast.api.router import router
from holdfast.api.threads import in_thread
from holdfast.errors import HoldfastError, Unauthenticated
from holdfast.kit import clock
from holdfast.kit.fields import PlainText
from holdfast.kit.schema import Schema
from holdfast.operations.event_schemas import EVENTS, LiveEvents
from holdfast.operations.events import EVENT_HUB, EventHub, Subscriber, stream
from holdfast.operations.filters import unknown_word
from holdfast.settings import Settings
from holdfast.storage.session import Database

routes = router("/api/events", "events")

TICKET_SECONDS = 60
Words = Annotated[str, PlainText(1, 1000)]
TICKET_CONTEXT = "events:ticket"


class Ticket(Schema):
    ticket: str
    expires_in: int


TheHub = Annotated[EventHub, Depends(EVENT_HUB)]


@routes.post("/ticket", summary="Create a one-minute ticket for an event stream")
def make_ticket(caller: SignedInToRead, vault: TheVault) -> Ticket:
    """For clients that cannot send headers, such as a browser's EventSource: `/api/events/stream?ticket=…`."""
    claims = {
        "session": caller.session_id,
        "token": caller.account_token_id,
        "user": caller.user_id,
        "until": clock.now().timestamp() + TICKET_SECONDS,
    }
    return Ticket(ticket=vault.encrypt(json.dumps(claims), TICKET_CONTEXT), expires_in=TICKET_SECONDS)


@guard
async def ticket_or_credential(
    request: Request,
    database: TheDatabase,
    settings: TheSettings,
    vault: TheVault,
    _preferred: PreferredHeader = None,
    _bearer: BearerHeader = None,
    ticket: Annotated[Annotated[str, PlainText(1, 2000)] | None, Query()] = None,
) -> Caller:
    if ticket is None:
        return with_final_password(await signed_in_even_if_password_must_change(request))
    try:
        claims = json.loads(vault.decrypt(ticket, TICKET_CONTEXT))
    except (SecretUnreadable, ValueError) as error:
        raise _bad_ticket() from error
    if claims["until"] < clock.now().timestamp():
        raise _bad_ticket()
    claimed = Caller(
        user_id=claims["user"],
        username="",
        role=Role.VIEWER,
        all_repositories_role=None,
        session_id=claims["session"],
        account_token_id=claims["token"],
        must_change_password=False,
        address=None,
    )
    caller = await in_thread("reading", partial(_as_now, database, settings, claimed))
    if caller is None:
        raise _bad_ticket()
    mark_authenticated(request.scope)
    return with_final_password(caller)


def _as_now(database: Database, settings: Settings, claimed: Caller) -> Caller | None:
    with database.reading() as session:
        return still_valid(session, settings, claimed)


@routes.get(
    "/stream",
    summary="Live events (server-sent events)",
    response_class=StreamingResponse,
    responses={
        **documented(429),
        200: {
            "content": {"text/event-stream": {"schema": shape(LiveEvents)}},
            "description": "The event stream. The schema lists each event with the schema of its `data`.",
        },
    },
)
async def events(
    caller: Annotated[Caller, Depends(ticket_or_credential)],
    hub: TheHub,
    database: TheDatabase,
    topics: Annotated[
        list[Words] | None,
        Query(
            max_length=MOST,
            description="Only events with these names, repeated or comma-separated (default: all). `hello`, `reset` "
            "and `session.ended` are always sent.",
        ),
    ] = None,
    last_event_id: Annotated[
        str | None,
        Header(max_length=20, pattern=r"^[0-9]{1,18}$", description="Resume after this event from an earlier stream."),
    ] = None,
) -> StreamingResponse:
    """The events that you may see; `LiveEvents` describes all of them.

    Each has a name, JSON data and, if it is stored, an id. The first one is `hello`. A client that reconnects with
    `Last-Event-ID` receives the stored events it has missed, or `reset` if they are gone.
    """

    def visible() -> frozenset[int] | None:
        with database.reading() as session:
            return rights.visible_repositories(session, caller)

    subscriber = Subscriber(
        caller=caller,
        repositories=frozenset(),
        sees_unbound=caller.role is Role.ADMIN,
        loop=asyncio.get_running_loop(),
        topics=_known_topics(topics),
    )
    after = int(last_event_id) if last_event_id is not None else None
    return EventStream(hub, subscriber, after, visible)


def _known_topics(given: list[str] | None) -> frozenset[str] | None:
    if given is None:
        return None
    topics = frozenset(topic.strip() for words in given for topic in words.split(","))
    if not topics <= EVENTS.keys():
        raise unknown_word("topics", EVENTS)
    return topics


class EventStream(StreamingResponse):
    """An event stream, counted while it is open. Refusing one costs no query."""

    def __init__(
        self, hub: EventHub, subscriber: Subscriber, after: int | None, visible: Callable[[], frozenset[int] | None]
    ) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(stream(hub, subscriber, after), media_type="text/event-stream", headers=headers)
        self._turn = hub.turn(subscriber.caller.user_id)
        self._subscriber, self._visible = subscriber, visible

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._turn.__enter__()
        except HoldfastError as error:
            await error_answer(error)(scope, receive, send)
            return
        with ExitStack() as stack:
            stack.push(self._turn)
            self._subscriber.repositories = await run_in_threadpool(self._visible)
            await super().__call__(scope, receive, send)


def _bad_ticket() -> Unauthenticated:
    return Unauthenticated("events.bad_ticket", "The ticket is not valid or has expired.")
