"""All database statements for ssh machines."""

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from holdfast.errors import Conflict, NotFound
from holdfast.machines.models import SshConnection, SshKey
from holdfast.repositories.models import Repository
from holdfast.storage.rows import find_row


def every(session: Session) -> list[SshConnection]:
    return list(session.scalars(select(SshConnection).order_by(SshConnection.name, SshConnection.id)))


def get(session: Session, connection_id: int) -> SshConnection | None:
    return find_row(session, SshConnection, connection_id)


def require(session: Session, connection_id: int) -> SshConnection:
    connection = get(session, connection_id)
    if connection is None:
        raise NotFound("ssh.not_found", "SSH connection not found.", ssh_connection_id=connection_id)
    return connection


def of_account(session: Session, username: str, host: str, port: int) -> SshConnection | None:
    wanted = SshConnection.username == username, SshConnection.host == host, SshConnection.port == port
    return session.scalars(select(SshConnection).where(*wanted).order_by(SshConnection.id)).first()


def on_host(session: Session, host: str, port: int) -> list[SshConnection]:
    statement = select(SshConnection).where(SshConnection.host == host, SshConnection.port == port)
    return list(session.scalars(statement.order_by(SshConnection.id)))


def require_unused(session: Session, name: str, username: str, host: str, port: int, but: int | None = None) -> None:
    """Raise Conflict if another connection has this name or this account."""
    found = session.scalars(select(SshConnection).where(SshConnection.name == name)).first()
    if found is not None and found.id != but:
        raise Conflict("ssh.name_taken", "An ssh connection with this name already exists.")
    found = of_account(session, username, host, port)
    if found is not None and found.id != but:
        raise Conflict(
            "ssh.account_taken",
            "An ssh connection to this account already exists; use that one.",
            ssh_connection_id=found.id,
        )


def repositories_of(session: Session, connection_id: int) -> list[int]:
    statement = select(Repository.id).where(Repository.ssh_connection_id == connection_id).order_by(Repository.id)
    return list(session.scalars(statement))


def newest_key(session: Session) -> SshKey | None:
    return session.scalars(select(SshKey).order_by(SshKey.id.desc())).first()


def key(session: Session, key_id: int) -> SshKey | None:
    return session.get(SshKey, key_id)


def drop_unused_keys(session: Session, but: int) -> list[int]:
    """Remove keys that no machine needs; return their ids."""
    used = select(SshConnection.key_id).where(SshConnection.key_id.is_not(None))
    unused = list(session.scalars(select(SshKey.id).where(SshKey.id != but, SshKey.id.not_in(used))))
    session.execute(delete(SshKey).where(SshKey.id.in_(unused)))
    return unused
