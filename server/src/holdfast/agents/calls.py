"""Offers pending calls to their agents, and connects the agent's output stream to the waiting caller.

`backup_engine.far.agent_call` writes each call as a file in a folder, next to a socket, and removes it when the caller
stops waiting. Nothing else is stored, so after a crash only files with a dead socket need to be removed.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session
from starlette.requests import ClientDisconnect

from backup_engine.command import Older
from backup_engine.frozen import frozen
from backup_protocol import SCHEMA_VERSION, JobKind
from backup_protocol.calls import LOOK
from holdfast.agents import errors
from holdfast.agents.credentials import KnownAgent
from holdfast.agents.payload import Payloads, envelope, environment, is_opened_by
from holdfast.repositories import store as repositories

NAME = re.compile(r"(?P<agent>\d{1,18})-[0-9a-f]{32}")
SAME_MOMENT = 200_000_000
"""In nanoseconds. Two changes within a tick of the system clock leave the folder with the same time."""
POLLING_SECONDS = 120.0
"""Longer than an agent waits between two polls."""
OFFERED_SECONDS = 10.0
"""How long an agent has to start a call before it is offered again."""


@frozen
class Offer:
    id: str
    payload: dict[str, Any]


class Calls:
    def __init__(self, folder: Path, payloads: Payloads, wake: Callable[[frozenset[int]], None]) -> None:
        self._folder = folder
        self._payloads = payloads
        self._wake = wake
        self._seen: int | None = None
        self._waiting: dict[int, tuple[str, ...]] = {}
        self._offered: dict[str, float] = {}
        self._polled_at = float("-inf")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in (*folder.glob("*.wanted*"), *folder.glob("*.begun")):
            if not _is_held(left):
                left.unlink(missing_ok=True)

    @property
    def agents_are_polling(self) -> bool:
        """Whether any agent has recently asked for work."""
        return time.monotonic() - self._polled_at < POLLING_SECONDS

    def look(self) -> None:
        """Look for new calls. This costs a few microseconds while nothing changes."""
        changed = self._folder.stat().st_mtime_ns
        if changed != self._seen or time.time_ns() - changed < SAME_MOMENT:
            self._look()
            self._seen = changed

    def _look(self) -> None:
        waiting: dict[int, tuple[str, ...]] = {}
        for file in sorted(self._folder.glob("*.json")):
            if found := NAME.fullmatch(file.stem):
                agent = int(found["agent"])
                waiting[agent] = (*waiting.get(agent, ()), file.stem)
        self._waiting = waiting
        self._offered = {name: when for name, when in self._offered.items() if (self._folder / f"{name}.json").exists()}
        self._wake(frozenset(waiting))

    def wait_for(self, agent_machine_id: int) -> bool:
        """Note that an agent has asked for work, and return whether a call for it is pending that was not offered just
        now.
        """
        self._polled_at = time.monotonic()
        return any(self._may_be_offered(name) for name in self._waiting.get(agent_machine_id, ()))

    def _may_be_offered(self, name: str) -> bool:
        return time.monotonic() - self._offered.get(name, float("-inf")) > OFFERED_SECONDS

    def offers(self, session: Session, agent: KnownAgent) -> list[Offer]:
        """Return the calls pending for an agent, with everything it needs to run them."""
        found = []
        for name in self._waiting.get(agent.id, ()):
            payload = self._payload(session, agent, name) if self._may_be_offered(name) else None
            if payload is not None:
                self._offered[name] = time.monotonic()
                found.append(Offer(name, payload))
        return found

    def _payload(self, session: Session, agent: KnownAgent, name: str) -> dict[str, Any] | None:
        try:
            call = json.loads((self._folder / f"{name}.json").read_bytes())
        except FileNotFoundError:
            return None
        if call["method"] == LOOK:
            return {"schema_version": SCHEMA_VERSION, LOOK: call["request"]}
        repository = repositories.get(session, call["repository_id"])
        if repository is None or not is_opened_by(repository, agent.id):
            return None
        older: Older = call.get("older", "refuse")
        block = {
            "method": call["method"],
            "request": json.dumps(call["request"]),
            "environment": environment(repository),
        }
        return self._payloads.with_passphrase(repository, envelope(JobKind.ENGINE_CALL, repository, block, older))

    def confirm(self, agent: KnownAgent, name: str) -> None:
        """Allow an agent to start, or go on with, the engine of a call. Raise NotFound if nobody is waiting any more.

        This and the caller's giving up change the name of one file, so only one of them happens: see `agent_call`.
        """
        _require_own(agent, name)
        wanted, begun = self._folder / f"{name}.wanted", self._folder / f"{name}.begun"
        if _is_held(wanted):
            with contextlib.suppress(FileNotFoundError):
                wanted.rename(begun)
        if not _is_held(begun):
            raise errors.call_over()

    async def connect(self, agent: KnownAgent, name: str, output: AsyncIterator[bytes]) -> None:
        """Forward the agent's stream to the waiting caller. Raise NotFound if nobody is waiting any more."""
        _require_own(agent, name)
        try:
            writer = await self._open(name)
        except OSError as error:
            self._remove(name)
            raise errors.call_over() from error
        try:
            async for block in output:
                writer.write(block)
                await writer.drain()
        except ClientDisconnect:
            return  # the agent disconnected; the caller notices the missing end frame
        except OSError as error:
            raise errors.call_over() from error
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _open(self, name: str) -> asyncio.StreamWriter:
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:  # socket paths must be short, but the folder's may be long
            _, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{name}.sock")
        finally:
            os.close(folder)
        return writer

    def _remove(self, name: str) -> None:
        """Remove the files that a killed process left behind."""
        for suffix in ("json", "sock"):
            (self._folder / f"{name}.{suffix}").unlink(missing_ok=True)


def _require_own(agent: KnownAgent, name: str) -> None:
    found = NAME.fullmatch(name)
    if found is None or int(found["agent"]) != agent.id:
        raise errors.call_over()


def _is_held(file: Path) -> bool:
    """Whether a caller that is alive has this file locked."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared, because others may look at the same time
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
