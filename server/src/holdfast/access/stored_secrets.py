"""Registry of the columns that contain encrypted values.

Each domain registers its columns; key rotation and the store check use the registry.
"""

from collections.abc import Callable, Iterator

from sqlalchemy import Column, RowMapping, Table, select, update
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access import totp
from holdfast.access.models import User
from holdfast.access.vault import SecretUnreadable, Vault, key_id_of
from holdfast.storage.base import Base


@frozen
class SecretColumn:
    """A column of ``Vault.encrypt`` values in a table with an ``id``. ``context`` returns the encryption context for a
    row.
    """

    table: str
    column: str
    context: Callable[[RowMapping], str]


@frozen
class StoredSecret:
    place: SecretColumn
    row: RowMapping

    @property
    def value(self) -> str:
        value: str = self.row[self.place.column]
        return value

    @property
    def context(self) -> str:
        return self.place.context(self.row)


_PLACES: dict[tuple[str, str], SecretColumn] = {}


def register(place: SecretColumn) -> None:
    _PLACES[place.table, place.column] = place


def places() -> tuple[SecretColumn, ...]:
    return tuple(_PLACES.values())


def stored_secrets(session: Session, *, to_change: bool = False) -> Iterator[StoredSecret]:
    for place in places():
        table, column = _table_and_column(place)
        statement = select(table).where(column.is_not(None)).order_by(table.c.id)
        for row in session.execute(statement.with_for_update() if to_change else statement).mappings().all():
            yield StoredSecret(place, row)


def store(session: Session, secret: StoredSecret, value: str) -> None:
    table, column = _table_and_column(secret.place)
    session.execute(update(table).where(table.c.id == secret.row["id"]).values({column: value}))


def keys_in_use(session: Session) -> set[str]:
    """Ids of the keys that are needed to decrypt the values in the store."""
    return {key_id_of(secret.value) for secret in stored_secrets(session)}


def unreadable(session: Session, vault: Vault) -> list[str]:
    """Values that none of the available keys can decrypt, as ``table.column of row id``, for the store check."""
    found = []
    for secret in stored_secrets(session):
        try:
            vault.decrypt(secret.value, secret.context)
        except SecretUnreadable:
            found.append(f"{secret.place.table}.{secret.place.column} of row {secret.row['id']}")
    return found


def _table_and_column(place: SecretColumn) -> tuple[Table, Column[str]]:
    table = Base.metadata.tables[place.table]
    return table, table.c[place.column]


register(SecretColumn(User.__tablename__, "totp_secret", lambda row: totp.context(row["id"])))
