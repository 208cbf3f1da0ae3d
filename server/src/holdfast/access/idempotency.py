"""``Idempotency-Key``: repeating a POST returns the first answer without doing the work again."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Request, Response
from pydantic import BaseModel
from sqlalchemy import bindparam, delete, select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from holdfast.access.caller import SignedInEvenIfPasswordMustChange
from holdfast.access.models import IdempotencyRecord
from holdfast.errors import Conflict
from holdfast.kit import clock
from holdfast.kit.fields import PlainText
from holdfast.storage.inserts import insert_unless_there

KEPT = timedelta(hours=24)
LOCK_WAIT = "10s"
LOCK_NOT_AVAILABLE = "55P03"

Answer = TypeVar("Answer", bound=BaseModel)

THE_RECORD = (
    IdempotencyRecord.user_id == bindparam("for_user"),
    IdempotencyRecord.route == bindparam("for_route"),
    IdempotencyRecord.key == bindparam("for_key"),
)
FIND = select(IdempotencyRecord.id, IdempotencyRecord.request_hash, IdempotencyRecord.answer).where(*THE_RECORD)
EXPIRE = delete(IdempotencyRecord).where(*THE_RECORD, IdempotencyRecord.created_at < bindparam("before"))
ANSWER = update(IdempotencyRecord).where(*THE_RECORD).values(answer=bindparam("given"))


class OnceRunner:
    """Runs an action at most once per key, in the transaction of the request.

    Not for routes whose answer contains a secret, because the answer is stored unencrypted.
    """

    def __init__(self, user_id: int, route: str, key: str | None, request_hash: str, response: Response) -> None:
        self._user_id = user_id
        self._route = route
        self._key = key
        self._request_hash = request_hash
        self._response = response

    def __call__(self, session: Session, action: Callable[[], Answer]) -> Answer | dict[str, Any]:
        """Return the answer of the action, or the stored answer of the first request with this key.

        Raise Conflict if the key was used with a different request, or if the first request is still running.
        """
        if self._key is None:
            return action()
        if not self._taken(session, self._key):
            return self._first_answer(session)
        answer = action()
        session.execute(ANSWER, {**self._identity(), "given": answer.model_dump(mode="json", by_alias=True)})
        return answer

    def _taken(self, session: Session, key: str) -> bool:
        """Insert the record, and return false if it already existed. Waits for other transactions that are inserting
        it.
        """
        now = clock.now()
        session.execute(EXPIRE, {**self._identity(), "before": now - KEPT})
        values = {
            "user_id": self._user_id,
            "route": self._route,
            "key": key,
            "request_hash": self._request_hash,
            "created_at": now,
        }
        with _bounded_wait(session):
            return insert_unless_there(session, IdempotencyRecord, values) is not None

    def _first_answer(self, session: Session) -> dict[str, Any]:
        record = session.execute(FIND, self._identity()).one_or_none()
        if record is None:
            raise in_progress()
        if record.request_hash != self._request_hash:
            raise Conflict("idempotency.mismatch", "This Idempotency-Key was already used with a different request.")
        if record.answer is None:
            raise in_progress()
        self._response.headers["Idempotency-Replayed"] = "true"
        answer: dict[str, Any] = record.answer
        return answer

    def _identity(self) -> dict[str, Any]:
        return {"for_user": self._user_id, "for_route": self._route, "for_key": self._key}


@contextmanager
def _bounded_wait(session: Session) -> Iterator[None]:
    """Limit how long, on PostgreSQL, the second of two simultaneous requests waits for the first."""
    if session.get_bind().dialect.name != "postgresql":
        yield
        return
    session.execute(text(f"SET LOCAL lock_timeout = '{LOCK_WAIT}'"))
    try:
        yield
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE:
            raise in_progress() from error
        raise
    session.execute(text("SET LOCAL lock_timeout = DEFAULT"))


async def _once(
    request: Request,
    response: Response,
    caller: SignedInEvenIfPasswordMustChange,
    idempotency_key: Annotated[
        Annotated[str, PlainText(1, 200)] | None,
        Header(description="Repeating the request with the same key within 24 hours returns the first answer."),
    ] = None,
) -> OnceRunner:
    route = f"{request.method} {request.scope['route'].path}"
    request_hash = _request_hash(request, await request.body()) if idempotency_key is not None else ""
    return OnceRunner(caller.user_id, route, idempotency_key, request_hash, response)


Once = Annotated[OnceRunner, Depends(_once)]


def purge(session: Session, now: datetime) -> None:
    session.execute(delete(IdempotencyRecord).where(IdempotencyRecord.created_at < now - KEPT))


def in_progress() -> Conflict:
    return Conflict(
        "idempotency.in_progress", "The first request with this Idempotency-Key is still running.", retry_after=1
    )


def _request_hash(request: Request, body: bytes) -> str:
    """Include the path: the same key for another repository is another request."""
    try:
        meaning = json.dumps(json.loads(body), sort_keys=True).encode()
    except (ValueError, RecursionError):
        meaning = body
    target = f"{request.url.path}?{request.url.query}".encode("utf-8", "surrogatepass")
    return sha256(target + b"\0" + meaning).hexdigest()
