"""The parts of the service that access contributes."""

from dataclasses import dataclass
from datetime import datetime

from fastapi import APIRouter, FastAPI

from holdfast.access import idempotency, sessions, throttle
from holdfast.access.caller import Identities
from holdfast.access.last_used import LastUsed
from holdfast.access.passwords import HashingThreads
from holdfast.access.refusals import RefusalListener
from holdfast.access.routes.audit import audit
from holdfast.access.routes.auth import auth
from holdfast.access.routes.tokens import tokens
from holdfast.access.routes.users import users
from holdfast.access.users import Accounts
from holdfast.access.vault import Vault
from holdfast.kit import clock
from holdfast.settings import Settings
from holdfast.storage.session import Database

ROUTERS: list[APIRouter] = [auth, users, tokens, audit]


@dataclass(frozen=True)
class Access:
    """Objects that live as long as the application."""

    settings: Settings
    database: Database
    vault: Vault
    last_used: LastUsed
    hashing_threads: HashingThreads
    refusals: RefusalListener

    def tidy(self, now: datetime | None = None) -> None:
        """Remove expired rows. Runs every few minutes; a delay does no harm."""
        now = now or clock.now()
        self.refusals.flush()
        with self.database.writing() as session:
            idempotency.purge(session, now)
            throttle.purge(session, now)
            sessions.purge(session, self.settings, now)

    def close(self) -> None:
        """Finish running work and store what is only in memory."""
        self.hashing_threads.close()
        self.last_used.close()
        self.refusals.flush(at_once=True)


def install(app: FastAPI, settings: Settings, database: Database, vault: Vault | None = None) -> Access:
    """Give the application the objects of the guards and routes."""
    access = Access(
        settings=settings,
        database=database,
        vault=vault or Vault(settings),
        last_used=LastUsed(database),
        hashing_threads=HashingThreads(),
        refusals=RefusalListener(database),
    )
    app.state.vault = access.vault
    app.state.accounts = Accounts(database)
    app.state.identities = Identities(settings, database, access.vault)
    app.state.last_used = access.last_used
    app.state.hashing_threads = access.hashing_threads
    app.state.refusal_listeners.append(access.refusals)
    return access
