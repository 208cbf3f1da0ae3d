"""The record of a new repository."""

from typing import Any

from backup_engine.parse import InfoResult
from holdfast.kit import clock
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.repositories.schemas import RepositoryPlace, RepositorySettings


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
    """Given what was asked for and what the engine has told, return the row to store."""
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
        "unencrypted_confirmed": encryption == "none",
        "passphrase_location": wanted.passphrase_location,
        "passphrase": opener.seal(number, passphrase) if passphrase and encryption != "none" else None,
        "has_keyfile": encryption.startswith("keyfile"),
        "retention": wanted.retention.model_dump(exclude_none=True),
        "total_size": totals.total_size if totals else None,
        "unique_size": totals.unique_size if totals else None,
        "created_at": now,
        "updated_at": now,
    }
    return Repository(**{**values, **more})
