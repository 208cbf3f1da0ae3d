"""The access routes in their own application, with a few probe routes that show what the guards let through."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel
from sqlalchemy import JSON, Boolean, DateTime, String, Text, func, insert, select

import holdfast.repositories.models  # noqa: F401 - rights refer to its table
from holdfast.access import audit, users
from holdfast.access.caller import AdminOnly, LoginOnly, SignedIn
from holdfast.access.feature import ACCESS, PROVIDES, ROUTERS, Access, install
from holdfast.access.idempotency import Once
from holdfast.access.models import AuditEntry
from holdfast.access.passwords import hash_password
from holdfast.access.plans import NeedsArchiveHistory
from holdfast.access.rights import require_repository, visible_repositories
from holdfast.access.roles import Role
from holdfast.access.users import NewUser
from holdfast.api.app import build_app
from holdfast.api.dependencies import DATABASE, SETTINGS, Reading, Writing
from holdfast.api.parts import Parts
from holdfast.api.router import router
from holdfast.kit import clock
from holdfast.kit.fields import RowId
from holdfast.settings import Settings
from holdfast.storage.base import Base
from holdfast.storage.session import Database

PASSWORD = "correct horse"
HOME = "192.0.2.10"
ELSEWHERE = "198.51.100.20"

probe = router("/probe", "Probe")


class Work(BaseModel):
    subject: str
    fail: bool = False


class Done(BaseModel):
    number: int


@probe.get("/signed-in", summary="Any credential")
def signed_in(caller: SignedIn) -> dict[str, Any]:
    return {"username": caller.username, "role": caller.role.value, "address": caller.address}


@probe.post("/login-only", summary="A login")
def login_only(caller: LoginOnly) -> dict[str, str]:
    return {"username": caller.username}


@probe.get("/admin", summary="An admin")
@probe.post("/admin", summary="An admin who changes something")
def admin(caller: AdminOnly) -> dict[str, str]:
    return {"username": caller.username}


@probe.get("/history", summary="A feature of a plan")
def history(_plan: NeedsArchiveHistory, _caller: SignedIn) -> dict[str, str]:
    return {}


@probe.get("/repositories", summary="What the caller may see")
def repositories(caller: SignedIn, session: Reading) -> dict[str, list[int] | None]:
    visible = visible_repositories(session, caller)
    return {"visible": None if visible is None else sorted(visible)}


@probe.get("/repositories/{repository_id}/{role}", summary="What the caller may do")
@probe.post("/repositories/{repository_id}/{role}", summary="What the caller may change")
def repository(repository_id: RowId, role: Role, caller: SignedIn, session: Reading) -> dict[str, int]:
    require_repository(session, caller, repository_id, role)
    return {"id": repository_id}


@probe.post("/work/{place}", summary="Work that is done once", response_model=Done)
def work(place: int, body: Work, caller: SignedIn, session: Writing, once: Once) -> Done | dict[str, Any]:
    def do() -> Done:
        audit.record(session, actor=caller, action="probe.work", object_id=place)
        if body.fail:
            raise users.user_not_found(place)
        number = session.execute(select(func.count()).select_from(AuditEntry).filter_by(action="probe.work"))
        return Done(number=number.scalar_one())

    return once(session, do)


class Service:
    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self.settings = settings
        parts = Parts([SETTINGS.given(settings), DATABASE.given(database), *PROVIDES])
        self.app = build_app(parts, [*ROUTERS, probe], "0", _nothing)
        install(self.app)
        self.access: Access = parts[ACCESS]
        self.client = self.client_at(HOME)

    def client_at(self, address: str) -> TestClient:
        return TestClient(self.app, client=(address, 50000), raise_server_exceptions=True)

    def add_user(self, username: str, role: Role = Role.VIEWER, password: str = PASSWORD, **fields: Any) -> int:
        new = NewUser(username, hash_password(password), role, **{"must_change_password": False, **fields})
        with self.database.writing() as session:
            return users.create(session, None, new).id

    def try_login(self, username: str, password: str = PASSWORD, address: str = HOME) -> Any:
        return self.client_at(address).post("/api/auth/login", data={"username": username, "password": password})

    def log_in(self, username: str, password: str = PASSWORD, address: str = HOME) -> dict[str, str]:
        """Log in and return the header that carries the token."""
        answer = self.try_login(username, password, address)
        assert answer.status_code == 200, answer.text
        return header(answer.json()["access_token"])

    def account_token(self, login: dict[str, str], name: str = "script", **more: Any) -> dict[str, str]:
        answer = self.client.post("/api/settings/tokens", json={"name": name, **more}, headers=login)
        assert answer.status_code == 201, answer.text
        return header(answer.json()["token"])

    def add_repository(self) -> int:
        table = Base.metadata.tables["repositories"]
        with self.database.writing() as session:
            row_id: int = session.execute(insert(table).values(_any_row(table)).returning(table.c.id)).scalar_one()
            return row_id

    def entries(self, action: str) -> list[AuditEntry]:
        with self.database.reading() as session:
            return list(session.execute(select(AuditEntry).filter_by(action=action).order_by(AuditEntry.id)).scalars())


def header(token: str) -> dict[str, str]:
    return {"X-Backup-Authorization": f"Bearer {token}"}


def key_of(answer: Any) -> str:
    key: str = answer.json()["detail"]["key"]
    return key


@asynccontextmanager
async def _nothing(_app: FastAPI) -> AsyncIterator[None]:
    yield


def _any_row(table: Any) -> dict[str, Any]:
    """A value for each required column, whatever columns the table of the other domain has."""
    return {
        column.name: _any_value(column)
        for column in table.columns
        if not column.nullable and not column.primary_key and column.default is None
    }


def _any_value(column: Any) -> Any:
    values: list[tuple[type, Any]] = [(Boolean, False), (Text, uuid.uuid4().hex), (String, uuid.uuid4().hex[:10])]
    kind = column.type
    if isinstance(getattr(kind, "impl", None), DateTime):
        return clock.now()
    if isinstance(kind, JSON):
        return []
    return next((value for wanted, value in values if isinstance(kind, wanted)), 1)
