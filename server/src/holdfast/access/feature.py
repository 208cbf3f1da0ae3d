"""What the access domain contributes to the service: routers, parts and housekeeping."""

from datetime import datetime

from fastapi import APIRouter

from backup_engine.frozen import frozen
from holdfast.access import idempotency, sessions, throttle
from holdfast.access.caller import IDENTITIES, Identities
from holdfast.access.last_used import LAST_USED, LastUsed
from holdfast.access.passwords import HASHING_THREADS, HashingThreads
from holdfast.access.refusals import RefusalListener
from holdfast.access.routes.audit import audit
from holdfast.access.routes.auth import auth
from holdfast.access.routes.tokens import tokens
from holdfast.access.routes.users import users
from holdfast.access.users import ACCOUNTS, Accounts
from holdfast.access.vault import VAULT, Vault
from holdfast.api.app import Application
from holdfast.api.dependencies import DATABASE, SETTINGS
from holdfast.api.parts import Part, Parts
from holdfast.kit import clock
from holdfast.settings import Settings
from holdfast.storage.session import Database

ROUTERS: tuple[APIRouter, ...] = (auth, users, tokens, audit)


@frozen
class Access:
    """Objects that live as long as the application."""

    settings: Settings
    database: Database
    vault: Vault
    last_used: LastUsed
    hashing_threads: HashingThreads
    refusals: RefusalListener

    def tidy(self, now: datetime | None = None) -> None:
        """Remove expired rows. This runs periodically; delays are harmless."""
        now = now or clock.now()
        self.refusals.flush()
        with self.database.writing() as session:
            idempotency.purge(session, now)
            throttle.purge(session, now)
            sessions.purge(session, self.settings, now)

    def close(self) -> None:
        """Finish running work and store data that exists only in memory."""
        self.hashing_threads.close()
        self.last_used.close()
        self.refusals.flush(at_once=True)


ACCESS = Part[Access]("access")


def _access(parts: Parts) -> Access:
    database = parts[DATABASE]
    return Access(
        settings=parts[SETTINGS],
        database=database,
        vault=parts[VAULT],
        last_used=parts[LAST_USED],
        hashing_threads=parts[HASHING_THREADS],
        refusals=RefusalListener(database),
    )


PROVIDES = (
    VAULT.made_by(lambda parts: Vault(parts[SETTINGS])),
    ACCOUNTS.made_by(lambda parts: Accounts(parts[DATABASE])),
    IDENTITIES.made_by(lambda parts: Identities(parts[SETTINGS], parts[DATABASE], parts[VAULT])),
    LAST_USED.made_by(lambda parts: LastUsed(parts[DATABASE])),
    HASHING_THREADS.made_by(lambda _parts: HashingThreads()),
    ACCESS.made_by(_access),
)


def install(app: Application) -> None:
    app.refusal_listeners.append(ACCESS.of(app).refusals)
