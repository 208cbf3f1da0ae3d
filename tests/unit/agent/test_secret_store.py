"""Secrets that stay on the machine."""

import stat
from pathlib import Path

import pytest

from backup_agent.places import Places
from backup_agent.problems import Problem
from backup_agent.sealing import CannotOpen, key_of, seal, unseal
from backup_agent.secret_store import SecretStore

PASSPHRASE = "correct horse ümlaut battery"


@pytest.fixture
def store(tmp_path: Path) -> SecretStore:
    return SecretStore(Places(tmp_path / "config", tmp_path / "state"))


def test_a_secret_can_be_stored_read_and_removed(store: SecretStore) -> None:
    store.set("repository-1", PASSPHRASE)
    store.set("repository-2", "another")

    assert store.names() == ["repository-1", "repository-2"]
    assert store.get("repository-1") == PASSPHRASE
    assert store.get("repository-3") is None
    assert store.remove("repository-1")
    assert not store.remove("repository-1")
    assert store.names() == ["repository-2"]


def test_the_file_is_private_and_does_not_show_the_secret(store: SecretStore, tmp_path: Path) -> None:
    store.set("repository-1", PASSPHRASE)

    file = tmp_path / "config" / "secrets.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "horse" not in file.read_text()


@pytest.mark.parametrize(("name", "value"), [("", "x"), ("with space", "x"), ("-x", "x"), ("ok", ""), ("ok", "a\0b")])
def test_invalid_names_and_values_are_refused(store: SecretStore, name: str, value: str) -> None:
    with pytest.raises(Problem):
        store.set(name, value)
    assert store.names() == []


def test_a_value_sealed_for_one_purpose_does_not_open_for_another(tmp_path: Path) -> None:
    key = key_of(tmp_path / "key")
    sealed = seal(key, PASSPHRASE, "one")

    assert unseal(key, sealed, "one") == PASSPHRASE
    assert seal(key, PASSPHRASE, "one") != sealed
    for wrong in (lambda: unseal(key, sealed, "two"), lambda: unseal(bytes(32), sealed, "one")):
        with pytest.raises(CannotOpen):
            wrong()


def test_a_changed_character_is_detected(tmp_path: Path) -> None:
    key = key_of(tmp_path / "key")
    sealed = seal(key, PASSPHRASE, "one")

    for place in range(3, len(sealed), 7):
        changed = sealed[:place] + ("A" if sealed[place] != "A" else "B") + sealed[place + 1 :]
        with pytest.raises(CannotOpen):
            unseal(key, changed, "one")
