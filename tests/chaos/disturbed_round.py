"""One round: carry out its plan, start everything again, wait until no work is left."""

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx2

from tests.chaos.plan import Event, plan
from tests.chaos.strike import Strikes
from tests.chaos.world import World
from tests.support.service import Client, wait_until

ACTIVE = ("pending", "running")
END_SECONDS = 180.0
ASK_SECONDS = 8.0


@dataclass
class Started:
    """A backup that was requested.

    Without an id the service has not responded yet; the request is repeated with the same key.
    """

    repository: str
    source: str
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    id: int | None = None
    cancel_asked: bool = False
    ended_as: str | None = None
    """The terminal status in which it was seen, if any."""


@dataclass
class Round:
    world: World
    seed: int
    strikes: Strikes = field(default_factory=Strikes)
    started: list[Started] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)
    asking: list[threading.Thread] = field(default_factory=list)

    def run(self) -> None:
        begin = time.monotonic()
        for event in plan(self.seed, list(self.world.services), len(self.world.repositories)):
            time.sleep(max(0.0, begin + event.at - time.monotonic()))
            said = self._carry_out(event)
            self.events.append(f"{event}  ->  {said}  (at {time.monotonic() - begin:.3f} s)")
        self._bring_up()
        self._ask_again()
        self._wait_for_ends(begin)
        for asking in self.asking:
            asking.join()

    # --- the events -------------------------------------------------------------------------------------------------

    def _carry_out(self, event: Event) -> str:
        match event.action:
            case "start":
                return self._start(event.target, event.number)
            case "cancel":
                return self._cancel(event.number)
            case "ask":
                return self._ask_for_key(event.number)
            case "kill":
                return self.strikes.kill(self.world, event.target, event.number)
            case "stop":
                return self._stop(event.target)
            case "up":
                return self._up(event.target)
        raise ValueError(event.action)

    def _start(self, pace: str, number: int) -> str:
        path = str(self.world.repositories[number]["path"])
        backup = Started(path, str(self.world.engine.source(pace)))
        self.started.append(backup)
        return self._ask_for(backup)

    def _ask_for(self, backup: Started) -> str:
        body = {"repository": backup.repository, "source_paths": [backup.source]}
        headers = {"Idempotency-Key": backup.key}
        answer = self._answer(lambda client: client.post("/api/backup/start", json=body, headers=headers))
        if answer is None:
            return "no answer"
        if answer.status_code != 200:
            return f"{answer.status_code} {answer.text}"
        backup.id = answer.json()["job_id"]
        return f"operation {backup.id}"

    def _cancel(self, number: int) -> str:
        known = [backup for backup in self.started if backup.id is not None]
        if not known:
            return "nothing to cancel"
        backup = known[-1 - number % len(known)]
        backup.cancel_asked = True
        answer = self._answer(lambda client: client.post(f"/api/operations/{backup.id}/cancel"))
        if answer is None:
            return f"operation {backup.id}: no answer"
        if answer.status_code == 200:
            self._saw(backup, answer.json()["status"])
        return f"operation {backup.id}: {answer.status_code} {answer.json().get('status')}"

    def _ask_for_key(self, number: int) -> str:
        """Request a repository's key without waiting for the response, which comes when the repository is free."""
        path = f"/api/repositories/{self.world.repositories[number]['id']}/key"
        asking = threading.Thread(target=self._answer, args=(lambda client: client.get(path),))
        asking.start()
        self.asking.append(asking)
        return f"asked for the key of repository {number + 1}"

    def _stop(self, name: str) -> str:
        if not self.world.is_up(name):
            return f"{name} is down"
        return f"{name} ended with {self.world.services[name].stop(60)}"

    def _up(self, name: str) -> str:
        if self.world.is_up(name):
            return f"{name} is up"
        self.world.services[name].launch()
        return f"{name} launched"

    def _answer(self, ask: Callable[[Client], httpx2.Response]) -> httpx2.Response | None:
        try:
            with self.world.client(ASK_SECONDS) as client:
                return ask(client)
        except httpx2.TransportError:
            return None

    # --- the end ----------------------------------------------------------------------------------------------------

    def _bring_up(self) -> None:
        for name in self.world.services:
            self._up(name)
        self.world.api.wait_until_ready()
        self.world.renew_token()

    def _ask_again(self) -> None:
        for backup in self.started:
            if backup.id is None:
                wait_until(partial(self._ask_again_for, backup), what="every start is answered")

    def _ask_again_for(self, backup: Started) -> bool:
        self.events.append(f"        asked again  ->  {self._ask_for(backup)}")
        return backup.id is not None

    def _wait_for_ends(self, begin: float) -> None:
        deadline = time.monotonic() + END_SECONDS
        with self.world.client() as client:
            for backup in self.started:
                while self._status(client, backup) in ACTIVE and time.monotonic() < deadline:
                    time.sleep(0.1)
        self.events.append(f"        all ends seen  (at {time.monotonic() - begin:.3f} s)")

    def _status(self, client: Client, backup: Started) -> str:
        answer = client.get(f"/api/operations/{backup.id}")
        status: str = answer.json()["status"] if answer.status_code == 200 else "lost"
        self._saw(backup, status)
        return status

    def _saw(self, backup: Started, status: str) -> None:
        """Once a terminal status was seen, it must never change."""
        if backup.ended_as is not None and status != backup.ended_as:
            self.contradictions.append(f"operation {backup.id} was {backup.ended_as} and is {status}")
        if status not in ACTIVE and status != "lost":
            backup.ended_as = status

    def operation(self, client: Client, backup: Started) -> dict[str, Any] | None:
        answer = client.get(f"/api/operations/{backup.id}")
        found: dict[str, Any] | None = answer.json() if answer.status_code == 200 else None
        return found
