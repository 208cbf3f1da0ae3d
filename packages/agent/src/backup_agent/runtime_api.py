"""The service's routes for agents, one method each."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from backup_agent.client import Client, Link, NoAnswer, NotAllowed, OpenStream, Refusal
from backup_protocol import (
    Acknowledgement,
    Canceled,
    Claimed,
    Complete,
    Fail,
    Heartbeat,
    HeartbeatAnswer,
    LogAnswer,
    LogBatch,
    Malformed,
    Polled,
    Progress,
    Register,
    Registered,
    ResultPart,
    Start,
    read,
    write,
)
from backup_protocol.calls import CALL_OVER

PREFIX = "/api/agents"
ANSWER_MARGIN = 15.0
"""Time beyond the wait of a long poll after which the poll counts as unanswered."""

STREAM_SECONDS = 660.0
"""Longer than the service itself waits for a silent engine."""

CONFIRM_SECONDS = 20.0

Message = TypeVar("Message")


class RuntimeApi:
    """Every method except `register` is safe to repeat. Each raises NoAnswer or Refusal."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def register(self, message: Register) -> Registered:
        answer = self._client.call("POST", f"{PREFIX}/register", write(message), repeat=False)
        return _answer(Registered, answer)

    def unregister(self) -> None:
        self._client.call("POST", f"{PREFIX}/unregister", {})

    def heartbeat(self, message: Heartbeat) -> HeartbeatAnswer:
        return _answer(HeartbeatAnswer, self._client.call("POST", f"{PREFIX}/heartbeat", write(message)))

    def poll(self, limit: int, wait: int) -> Polled:
        path = f"{PREFIX}/jobs/poll?limit={limit}&wait={wait}"
        return _answer(Polled, self._client.call("GET", path, seconds=wait + ANSWER_MARGIN))

    def claim(self, job_id: int) -> Claimed:
        """Claim a job. The answer contains its status, and the job with its secrets."""
        return _answer(Claimed, self._client.call("POST", f"{PREFIX}/jobs/{job_id}/claim"))

    def status(self, job_id: int) -> Acknowledgement:
        return _answer(Acknowledgement, self._client.call("GET", f"{PREFIX}/jobs/{job_id}"))

    def start(self, job_id: int, message: Start) -> Acknowledgement:
        return self._report(job_id, "start", message)

    def progress(self, job_id: int, message: Progress) -> Acknowledgement:
        return self._report(job_id, "progress", message)

    def complete(self, job_id: int, message: Complete) -> Acknowledgement:
        return self._report(job_id, "complete", message)

    def fail(self, job_id: int, message: Fail) -> Acknowledgement:
        return self._report(job_id, "fail", message)

    def canceled(self, job_id: int, message: Canceled) -> Acknowledgement:
        return self._report(job_id, "canceled", message)

    def logs(self, job_id: int, batch: LogBatch) -> LogAnswer:
        return _answer(LogAnswer, self._client.call("POST", f"{PREFIX}/jobs/{job_id}/logs", write(batch)))

    def part(self, job_id: int, part: ResultPart) -> None:
        self._client.call("POST", f"{PREFIX}/jobs/{job_id}/parts", write(part))

    def restore_stream(self, job_id: int) -> AbstractContextManager[OpenStream]:
        """Open the stream of files for a restore that this agent receives."""
        return self._client.stream(f"{PREFIX}/jobs/{job_id}/restore-stream", STREAM_SECONDS)

    def call_output(self, call_id: str, frames: Iterator[bytes], link: Link | None = None) -> None:
        """Send the engine's output for a call as it is produced."""
        self._client.send(f"{PREFIX}/calls/{call_id}/output", frames, STREAM_SECONDS, link)

    def confirm_call(self, call_id: str) -> None:
        """Ask whether a caller still waits for a call. Raise Unknown if not.

        The connection is a separate one, because a long poll may occupy the usual one. A service that does not know
        this route refuses it for another reason: the call then continues without an answer.
        """
        try:
            self._client.send(f"{PREFIX}/calls/{call_id}/confirm", iter(()), CONFIRM_SECONDS)
        except Refusal as refusal:
            if isinstance(refusal, NotAllowed) or refusal.key == CALL_OVER:
                raise

    def _report(self, job_id: int, verb: str, message: Any) -> Acknowledgement:
        answer = self._client.call("POST", f"{PREFIX}/jobs/{job_id}/{verb}", write(message))
        return _answer(Acknowledgement, answer)


def _answer(message: type[Message], value: Any) -> Message:
    try:
        return read(message, value)
    except Malformed as error:
        raise NoAnswer(f"The response is not from a backup service: {error}.") from error
