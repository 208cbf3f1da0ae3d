"""The record of a new repository."""

from typing import Any

from backup_engine.results import InfoResult
from holdfast.kit import clock
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.repositories.schemas import NOT_ENCRYPTED, RepositoryPlace, RepositorySettings


def new_record(
    opener: Opener,
    wanted: RepositoryPlace,
    *,
    number: str,
    path: str,
    identity: str,
    encryption: str,
    passphrase: str | None,
    known: InfoResult | None = None,
    **more: Any,
) -> Repository:
    """Given the request and the engine's answer, return the row to store."""
    now = clock.now()
    totals = known.repository_totals if known else None
    settings = wanted.model_dump(include=set(RepositorySettings.model_fields), exclude={"retention"})
    values = {
        **settings,
        "uuid": number,
        "path": path,
        "identity": identity,
        "engine_id": known.repository_id if known else None,
        "engine_version": wanted.engine_version,
        "repository_type": wanted.repository_type,
        "execution_target": wanted.execution_target,
        "remote_path": wanted.remote_path,
        "encryption": encryption,
        "unencrypted_confirmed": encryption in NOT_ENCRYPTED,
        "passphrase_location": wanted.passphrase_location,
        "passphrase": opener.seal(number, passphrase) if passphrase and encryption != "none" else None,
        "has_keyfile": encryption.startswith("keyfile"),
        "keyfile": _key_made_here(opener, wanted, number, encryption, known),
        "retention": wanted.retention.model_dump(exclude_none=True),
        "total_size": totals.total_size if totals else None,
        "unique_size": totals.unique_size if totals else None,
        "created_at": now,
        "updated_at": now,
    }
    return Repository(**{**values, **more})


def _key_made_here(
    opener: Opener, wanted: RepositoryPlace, number: str, encryption: str, known: InfoResult | None
) -> str | None:
    """Return the key of a keyfile repository for the store; None if the engine runs elsewhere, where its key stays."""
    if not encryption.startswith("keyfile") or wanted.execution_target != "local" or known is None:
        return None
    return opener.key_files.sealed(number, known.repository_id)
