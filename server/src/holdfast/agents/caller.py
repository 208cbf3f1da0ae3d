"""The guard of the runtime routes. It accepts an agent's credential, in its own header, and no other."""

import time
from typing import Annotated

import structlog
from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader

from backup_protocol import AUTHORIZATION_HEADER
from holdfast.access.caller import address_of, guard
from holdfast.agents import errors, store
from holdfast.agents.credentials import KnownAgent
from holdfast.agents.gateway import GATEWAY, Gateway
from holdfast.api.authenticated_connections import mark_authenticated
from holdfast.errors import HoldfastError, Unauthenticated

log = structlog.get_logger("holdfast.agents")

LOG_SECONDS = 10.0
"""Minimum interval between log lines about refusals of one address; the audit trail counts them all."""

_documented_header = Security(APIKeyHeader(name=AUTHORIZATION_HEADER, scheme_name="AgentBearer", auto_error=False))


TheGateway = Annotated[Gateway, Depends(GATEWAY)]


@guard
async def agent_only(
    request: Request, gateway: TheGateway, _header: Annotated[str | None, _documented_header]
) -> KnownAgent:
    """Return the agent. Raise Unauthenticated without a valid credential, Forbidden if the agent is shut out."""
    try:
        return await admitted(gateway, request)
    except HoldfastError as error:
        refusal_log.add(address_of(request), error)
        raise


async def admitted(gateway: Gateway, request: Request) -> KnownAgent:
    """Return the current state of the agent whose credential a request carries. Raise Unauthenticated, Forbidden."""
    agent = await gateway.credentials.of(bearer(request))
    if agent.status in store.SHUT_OUT:
        raise errors.revoked(agent.status)
    mark_authenticated(request.scope)
    return agent


ThisAgent = Annotated[KnownAgent, Depends(agent_only)]


def bearer(request: Request) -> str:
    header = request.headers.get(AUTHORIZATION_HEADER)
    if header is None:
        raise Unauthenticated("agents.credential_missing", "This request needs an agent's credential.")
    scheme, _, credential = header.strip().partition(" ")
    if scheme.lower() != "bearer" or not credential.strip():
        raise errors.credential_invalid()
    return credential.strip()


class _RefusalLog:
    """Rate-limits log lines about refused callers, so that they cannot fill the log."""

    def __init__(self) -> None:
        self._last: dict[tuple[str | None, str], float] = {}

    def add(self, address: str | None, error: HoldfastError) -> None:
        now = time.monotonic()
        if now - self._last.get((address, error.key), float("-inf")) < LOG_SECONDS:
            return
        if len(self._last) > 10_000:
            self._last.clear()
        self._last[address, error.key] = now
        log.warning("an agent was refused", key=error.key, address=address)


refusal_log = _RefusalLog()
