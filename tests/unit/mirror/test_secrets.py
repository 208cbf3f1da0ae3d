"""The secrets of remotes: key rotation finds them, and they are useless anywhere else."""

import json
from pathlib import Path

import pytest
from sqlalchemy import select

from holdfast.access import stored_secrets
from holdfast.access.rotation import rotate
from holdfast.access.vault import SecretUnreadable, Vault, key_id_of
from holdfast.mirror import feature
from holdfast.mirror.models import RcloneRemote
from holdfast.mirror.rclone import Rclone
from holdfast.mirror.remotes import Remotes, secret_context
from holdfast.settings import Settings
from holdfast.storage.session import Database

OPTIONS = {"url": "http://127.0.0.1/", "user": "me", "pass": "a secret word", "bearer_token": "another one"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, database_url=None)


def test_passwords_are_obscured_tokens_are_not_and_both_are_sealed(settings: Settings) -> None:
    remotes = Remotes(Rclone(settings), Vault(settings))

    remote = remotes.new("nas", "webdav", OPTIONS)

    assert remote.options == {"url": "http://127.0.0.1/", "user": "me"}
    assert "secret word" not in (remote.secrets or "")
    secrets = remotes.secrets(remote)
    assert secrets["bearer_token"] == "another one"
    assert secrets["pass"] not in ("a secret word", "")
    command = remotes.rclone.command(("lsf", "mirror:"), remotes.access(remote))
    assert "RCLONE_CONFIG_MIRROR_PASS" not in command.environment
    assert command.environment["RCLONE_CONFIG_MIRROR_URL"] == "http://127.0.0.1/"
    assert set(command.secrets) == {"RCLONE_CONFIG_MIRROR_PASS", "RCLONE_CONFIG_MIRROR_BEARER_TOKEN"}
    assert not any(secret in str(command.argv) for secret in command.secret_values)


def test_key_rotation_moves_the_secrets_to_the_new_key(database: Database, settings: Settings) -> None:
    for column in feature.FEATURE.secrets:
        stored_secrets.register(column)
    vault = Vault(settings)
    remotes = Remotes(Rclone(settings), vault)
    with database.writing() as session:
        session.add(remotes.new("nas", "webdav", OPTIONS))
    before = vault.active_key_id

    rotate(database, vault)

    with database.reading() as session:
        moved = session.scalars(select(RcloneRemote)).one()
        assert key_id_of(moved.secrets or "") == vault.active_key_id != before
        assert remotes.secrets(moved)["bearer_token"] == "another one"
        assert stored_secrets.unreadable(session, vault) == []


def test_secrets_copied_to_another_remote_do_not_open(settings: Settings) -> None:
    vault = Vault(settings)
    sealed = vault.encrypt(json.dumps({"pass": "x"}), secret_context("one"))

    with pytest.raises(SecretUnreadable):
        vault.decrypt(sealed, secret_context("another"))
