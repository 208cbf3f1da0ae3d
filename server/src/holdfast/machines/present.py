"""Presents ssh machines for administrators."""

from sqlalchemy.orm import Session

from holdfast.execution.ssh import HostKey
from holdfast.machines import store
from holdfast.machines.connection_test import SENTENCES
from holdfast.machines.deploy import Rotated
from holdfast.machines.keys import fingerprint
from holdfast.machines.models import SshConnection, SshKey
from holdfast.machines.schemas import ConnectionAnswer, HostKeyAnswer, NotMoved, RotationAnswer, SystemKey, TestAnswer

COPIED = (
    *("id", "name", "host", "port", "username", "engine_path", "engine_version", "python_version"),
    *("last_seen_at", "created_at", "updated_at"),
)


def connection_answer(session: Session, connection: SshConnection) -> ConnectionAnswer:
    key = store.key(session, connection.key_id) if connection.key_id is not None else None
    return ConnectionAnswer.model_validate(
        {
            **{name: getattr(connection, name) for name in COPIED},
            "status": connection.state,
            "host_key": _host_key(connection),
            "key_fingerprint": fingerprint(key) if key else None,
            "last_test": tested(connection) if connection.last_test else None,
            "repository_ids": store.repositories_of(session, connection.id),
        }
    )


def tested(connection: SshConnection) -> TestAnswer:
    last_test_result = connection.last_test or {}
    return TestAnswer.model_validate(
        {**last_test_result, "status": connection.state, "tested_at": connection.last_tested_at}
    )


def system_key(key: SshKey) -> SystemKey:
    return SystemKey(id=key.id, public_key=key.public_key, fingerprint=fingerprint(key), created_at=key.created_at)


def rotation_answer(rotated: Rotated) -> RotationAnswer:
    return RotationAnswer(
        system_key=system_key(rotated.key),
        moved=[connection.id for connection in rotated.moved],
        failed=[
            NotMoved(connection_id=connection.id, name=connection.name, key=why, message=_sentence(why))
            for connection, why in rotated.failed
        ],
    )


def _sentence(key: str) -> str:
    return SENTENCES.get(key, "The key could not be written there; check the machine, and rotate again.")


def _host_key(connection: SshConnection) -> HostKeyAnswer | None:
    if connection.host_key is None:
        return None
    key = HostKey.of(connection.host_key)
    return HostKeyAnswer(type=key.kind, fingerprint=key.fingerprint, pinned_at=connection.host_key_pinned_at)
