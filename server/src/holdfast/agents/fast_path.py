"""Answers the two most frequent requests of agents before the framework gets involved.

A heartbeat and a poll that finds nothing cost a fifth of an ordinary route, so one process can serve a fleet several
times as large. Requests that are refused, or whose answer is more than "nothing to do", continue to the routes with
their body intact; the routes define the contract.
"""

import json
import re
import uuid
from collections.abc import Awaitable, Mapping
from typing import Any

from pydantic import ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backup_protocol import AUTHORIZATION_HEADER
from holdfast.agents import store
from holdfast.agents.credentials import KnownAgent
from holdfast.agents.fleet import Heartbeat
from holdfast.agents.gateway import Gateway
from holdfast.agents.schemas import HeartbeatBody
from holdfast.api import headers
from holdfast.api.authenticated_connections import mark_authenticated
from holdfast.errors import HoldfastError
from holdfast.kit import clock

POLL = ("GET", "/api/agents/jobs/poll")
HEARTBEAT = ("POST", "/api/agents/heartbeat")
CREDENTIAL = AUTHORIZATION_HEADER.lower().encode()
PLAIN_QUERY = re.compile(rb"(limit=\d{1,3})?")
LARGEST = 64 * 1024
NOTHING_TO_DO = b'{"jobs":[]}'


class FastPath:
    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app = app
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        called = (scope.get("method"), scope.get("path"))
        answer: bytes | None = None
        if called == POLL:
            answer = await self._answer(self._poll(scope))
        elif called == HEARTBEAT:
            body = await _Body.read(receive)
            receive = body.receive
            answer = await self._answer(self._heartbeat(scope, body))
        if answer is None:
            await self._app(scope, receive, send)
        else:
            await _send(send, answer)

    async def _answer(self, asked: Awaitable[bytes | None]) -> bytes | None:
        """Return None if the request is refused: the routes then report the refusal."""
        try:
            return await asked
        except HoldfastError:
            return None

    async def _poll(self, scope: Scope) -> bytes | None:
        agent = await self._known(scope, dict(scope["headers"]))
        if agent is None or not PLAIN_QUERY.fullmatch(scope["query_string"]):
            return None
        view = await self._gateway.work_cache.now()
        is_wanted = agent.id in view.waiting or self._gateway.calls.wait_for(agent.id)
        return None if is_wanted else NOTHING_TO_DO

    async def _heartbeat(self, scope: Scope, body: "_Body") -> bytes | None:
        sent = dict(scope["headers"])
        agent = await self._known(scope, sent)
        if agent is None or not body.is_whole or not sent.get(b"content-type", b"").startswith(b"application/json"):
            return None
        try:
            heartbeat = HeartbeatBody.model_validate_json(body.content)
        except ValidationError:
            return None
        if heartbeat.agent_id != agent.agent_id:
            return None
        now = clock.now()
        if not self._gateway.fleet.note_unchanged(agent, heartbeat, now):
            await self._gateway.heartbeat_batches.process(Heartbeat(agent, heartbeat, now))
        view = await self._gateway.work_cache.now()
        self._gateway.missing_jobs.heartbeat(view.held_by(agent.id), heartbeat.running_job_ids)
        if any(job not in view.running for job in heartbeat.running_job_ids):
            return None
        settings = self._gateway.settings
        answer = {
            "server_time": now.isoformat(timespec="microseconds"),
            "poll_interval_seconds": settings.agent_poll_seconds,
            "cancel_job_ids": view.to_stop(agent.id),
            "heartbeat_interval_seconds": settings.agent_heartbeat_seconds,
        }
        return json.dumps(answer, separators=(",", ":")).encode()

    async def _known(self, scope: Scope, sent: Mapping[bytes, bytes]) -> KnownAgent | None:
        scheme, _, credential = sent.get(CREDENTIAL, b"").partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        agent = await self._gateway.credentials.of(credential.strip().decode("latin-1"))
        if agent.status in store.SHUT_OUT:
            return None
        mark_authenticated(scope)
        return agent


class _Body:
    """The part of a request's body that has been read, which can be replayed to the next handler."""

    def __init__(self, messages: list[Message], receive: Receive, content: bytes, *, is_whole: bool) -> None:
        self._messages = messages
        self._receive = receive
        self.content = content
        self.is_whole = is_whole

    @staticmethod
    async def read(receive: Receive) -> "_Body":
        messages: list[Message] = []
        content = b""
        while True:
            message: Any = await receive()
            messages.append(message)
            if message["type"] != "http.request":
                return _Body(messages, receive, content, is_whole=False)
            content += message.get("body", b"")
            if not message.get("more_body", False):
                return _Body(messages, receive, content, is_whole=True)
            if len(content) > LARGEST:
                return _Body(messages, receive, content, is_whole=False)

    async def receive(self) -> Message:
        return self._messages.pop(0) if self._messages else await self._receive()


async def _send(send: Send, answer: bytes) -> None:
    fields = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(answer)).encode()),
        (b"x-request-id", uuid.uuid4().hex.encode()),
        *headers.ALL,
    ]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": answer})
