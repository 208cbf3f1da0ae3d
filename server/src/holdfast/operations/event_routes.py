"""HTTP for live events."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Header, Query, Request
from fastapi.responses import StreamingResponse

from holdfast.access import rights
from holdfast.access.caller import (
    BearerHeader,
    Caller,
    PreferredHeader,
    SignedIn,
    guard,
    signed_in_even_if_password_must_change,
    still_valid,
    with_final_password,
)
from holdfast.access.roles import Role
from holdfast.access.vault import SecretUnreadable, TheVault
from holdfast.api.answers import documented
from holdfast.api.dependencies import TheDatabase, TheSettings
from holdfast.api.router import router
from holdfast.errors import Unauthenticated
from holdfast.kit import clock
from holdfast.kit.fields import PlainText
from holdfast.kit.schema import Schema
from holdfast.operations.events import EventHub, Subscriber, stream

routes = router("/api/events", "events")

TICKET_SECONDS = 60
TICKET_CONTEXT = "events:ticket"


class Ticket(Schema):
    ticket: str
    expires_in: int


async def the_hub(request: Request) -> EventHub:
    hub: EventHub = request.app.state.events
    return hub


TheHub = Annotated[EventHub, Depends(the_hub)]


@routes.post("/ticket", summary="A one-minute ticket for an event stream")
def make_ticket(caller: SignedIn, vault: TheVault) -> Ticket:
    """For clients that cannot send headers, such as a browser's EventSource: `/api/events/stream?ticket=…`."""
    claims = {
        "session": caller.session_id,
        "token": caller.account_token_id,
        "user": caller.user_id,
        "until": clock.now().timestamp() + TICKET_SECONDS,
    }
    return Ticket(ticket=vault.encrypt(json.dumps(claims), TICKET_CONTEXT), expires_in=TICKET_SECONDS)


@guard
def ticket_or_credential(
    request: Request,
    database: TheDatabase,
    settings: TheSettings,
    vault: TheVault,
    _preferred: PreferredHeader = None,
    _bearer: BearerHeader = None,
    ticket: Annotated[Annotated[str, PlainText(1, 2000)] | None, Query()] = None,
) -> Caller:
    if ticket is None:
        return with_final_password(signed_in_even_if_password_must_change(request))
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
    with database.reading() as session:
        caller = still_valid(session, settings, claimed)
    if caller is None:
        raise _bad_ticket()
    return with_final_password(caller)


@routes.get(
    "/stream",
    summary="Live events (server-sent events)",
    response_class=StreamingResponse,
    responses={**documented(429), 200: {"content": {"text/event-stream": {}}, "description": "The stream."}},
)
async def events(
    request: Request,
    caller: Annotated[Caller, Depends(ticket_or_credential)],
    hub: TheHub,
    database: TheDatabase,
    settings: TheSettings,
    last_event_id: Annotated[str | None, Header(max_length=20, pattern=r"^[0-9]{1,18}$")] = None,
) -> StreamingResponse:
    """`operation.updated`, `operation.progress`, `agent.updated`, `repository.updated`; only what you may see."""

    def visible() -> frozenset[int] | None:
        with database.reading() as session:
            return rights.visible_repositories(session, caller)

    subscriber = Subscriber(
        repositories=await asyncio.to_thread(visible),
        sees_unbound=caller.role is Role.ADMIN,
        loop=asyncio.get_running_loop(),
    )
    watch = asyncio.create_task(_end_with_credential(subscriber, caller, database, settings))
    request.app.state.background.add(watch)
    watch.add_done_callback(request.app.state.background.discard)
    after = int(last_event_id) if last_event_id is not None else None

    async def body() -> AsyncIterator[str]:
        try:
            async for text in stream(hub, subscriber, after):
                yield text
        finally:
            watch.cancel()

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(body(), media_type="text/event-stream", headers=headers)


CHECK_SECONDS = 2.0


async def _end_with_credential(
    subscriber: Subscriber, caller: Caller, database: TheDatabase, settings: TheSettings
) -> None:
    """A stream ends when its session ends, and follows changes of what its user may see."""

    def check() -> bool:
        with database.reading() as session:
            now = still_valid(session, settings, caller)
            if now is None or now.must_change_password:
                return False
            subscriber.repositories = rights.visible_repositories(session, now)
            subscriber.sees_unbound = now.role is Role.ADMIN
            return True

    while True:
        await asyncio.sleep(CHECK_SECONDS)
        if not await asyncio.to_thread(check):
            subscriber.offer(None)
            return


def _bad_ticket() -> Unauthenticated:
    return Unauthenticated("events.bad_ticket", "The ticket is not valid or has expired.")
