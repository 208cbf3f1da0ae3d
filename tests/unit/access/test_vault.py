import base64
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from holdfast.access import key_file
from holdfast.access.key_file import BadKey, Key
from holdfast.access.vault import SecretUnreadable, Vault, key_id_of
from holdfast.kit import clock
from holdfast.settings import Settings

ONE, TWO = (base64.b64encode(bytes([number] * 32)).decode() for number in (1, 2))


def with_keys(*keys: str) -> Vault:
    return Vault(Settings(secret_key=SecretStr(",".join(keys))))


@given(st.text(), st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_a_secret_decrypts_only_in_its_own_context(plaintext: str, context: str) -> None:
    vault = with_keys(ONE)
    sealed = vault.encrypt(plaintext, context)
    assert vault.decrypt(sealed, context) == plaintext
    assert sealed.isascii()
    with pytest.raises(SecretUnreadable):
        vault.decrypt(sealed, context + "x")


def test_encrypting_the_same_secret_never_gives_the_same_value(settings: Settings) -> None:
    vault = Vault(settings)
    assert len({vault.encrypt("secret", "here") for _ in range(100)}) == 100


def test_a_changed_value_does_not_decrypt() -> None:
    vault = with_keys(ONE)
    sealed = vault.encrypt("secret", "here")
    head, body = sealed.rsplit(".", 1)
    raw = bytearray(base64.urlsafe_b64decode(body))
    for position in range(len(raw)):
        raw[position] ^= 1
        with pytest.raises(SecretUnreadable):
            vault.decrypt(f"{head}.{base64.urlsafe_b64encode(raw).decode()}", "here")
        raw[position] ^= 1


@pytest.mark.parametrize(
    "value", ["", "secret", "v1.x", "v1.x.y.z", "v2.{id}.AAAA", "v1.{id}.", "v1.{id}.AAAA", "v1.{id}.ä"]
)
def test_a_value_that_is_not_an_encrypted_secret_is_refused(value: str) -> None:
    vault = with_keys(ONE)
    with pytest.raises(SecretUnreadable):
        vault.decrypt(value.replace("{id}", vault.active_key_id), "here")


def test_the_first_start_creates_a_key_file_that_only_its_owner_can_read(settings: Settings) -> None:
    Vault(settings)
    path = settings.data_dir / "secret.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["secret.key"]


def test_the_key_file_is_never_overwritten(settings: Settings) -> None:
    sealed = Vault(settings).encrypt("secret", "here")
    before = (settings.data_dir / "secret.key").read_bytes()
    assert Vault(settings).decrypt(sealed, "here") == "secret"
    assert (settings.data_dir / "secret.key").read_bytes() == before


def test_concurrent_first_starts_agree_on_one_key(settings: Settings) -> None:
    with ThreadPoolExecutor(16) as pool:
        keys = set(pool.map(lambda _: Vault(settings).active_key_id, range(16)))
    assert len(keys) == 1
    assert [entry.name for entry in settings.data_dir.iterdir()] == ["secret.key"]


def test_a_broken_key_file_prevents_the_start_and_is_left_unchanged(settings: Settings) -> None:
    path = settings.data_dir / "secret.key"
    settings.data_dir.mkdir()
    for content in (b"", b"# nothing\n", b"short\n", b"\xff\xfe", ONE.encode()[:-4]):
        path.write_bytes(content)
        with pytest.raises(BadKey, match=r"secret\.key"):
            Vault(settings)
        assert path.read_bytes() == content


@pytest.mark.parametrize("text", ["short", "!" * 44, base64.b64encode(b"x" * 16).decode(), " , "])
def test_a_broken_key_setting_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(BadKey) as caught:
        with_keys(text)
    assert "HOLDFAST_SECRET_KEY" in str(caught.value)
    assert text.strip(" ,") == "" or text not in str(caught.value)


def test_keys_from_the_setting_create_no_file(tmp_path: Path) -> None:
    vault = Vault(Settings(data_dir=tmp_path, secret_key=SecretStr(ONE)))
    assert vault.key_file is None
    assert list(tmp_path.iterdir()) == []


def test_the_key_file_can_be_stored_elsewhere(tmp_path: Path) -> None:
    Vault(Settings(data_dir=tmp_path / "data", secret_key_file=tmp_path / "keys" / "my.key"))
    assert (tmp_path / "keys" / "my.key").exists()
    assert not (tmp_path / "data").exists()


def test_the_first_key_encrypts_and_the_others_still_decrypt() -> None:
    old = with_keys(ONE)
    sealed = old.encrypt("secret", "here")
    both = with_keys(TWO, ONE)
    assert both.decrypt(sealed, "here") == "secret"
    assert key_id_of(both.encrypt("secret", "here")) == with_keys(TWO).active_key_id != old.active_key_id
    with pytest.raises(SecretUnreadable, match=old.active_key_id):
        with_keys(TWO).decrypt(sealed, "here")


def test_a_running_service_reads_a_replaced_key_file(settings: Settings) -> None:
    running = Vault(settings)
    assert running.key_file is not None
    sealed = running.encrypt("secret", "here")
    fresh = Key.new()
    key_file.replace(running.key_file, (fresh, *running.keys))
    assert running.active_key_id == fresh.id
    assert running.decrypt(sealed, "here") == "secret"
    assert stat.S_IMODE(running.key_file.stat().st_mode) == 0o600


def test_a_running_service_survives_the_removal_of_its_key_file(settings: Settings) -> None:
    running = Vault(settings)
    sealed = running.encrypt("secret", "here")
    os.unlink(settings.data_dir / "secret.key")
    assert running.decrypt(sealed, "here") == "secret"


def test_a_key_keeps_its_creation_time_and_its_repr_hides_the_material(settings: Settings) -> None:
    (key,) = Vault(settings).keys
    assert key.created_at is not None
    assert clock.now() - key.created_at < timedelta(minutes=1)
    assert str(key.material) not in repr(key)


def test_the_signing_key_differs_from_the_encryption_key(settings: Settings) -> None:
    vault = Vault(settings)
    assert vault.signing_key(vault.active_key_id) != vault.keys[0].material
    assert len(vault.signing_key(vault.active_key_id)) == 32
