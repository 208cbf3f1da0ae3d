"""The configuration files of the command line and the agent, after other users replaced, linked or could write them.

With write access an attacker chooses the service that receives a user's secrets, and the programs an agent starts.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from backup_agent import config, private_files
from backup_agent.config import Config, ConfigUnreadable
from backup_agent.places import Places
from holdfast.entry.client import connection
from holdfast.entry.client.connection import Login

SOMEBODY = 4242
LOGIN = Login("https://backup.example", "a secret token")
AGENT = Config("https://backup.example", "agent", "a secret credential")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "agent", tmp_path / "state")


@pytest.fixture
def login_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("HOLDFAST_SERVER", "HOLDFAST_TOKEN", "HOLDFAST_CA_FILE"):
        monkeypatch.delenv(name, raising=False)
    return connection.login_file()


def owned_by_somebody(file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(file, SOMEBODY, SOMEBODY)


def linked_to_somebodys(file: Path) -> None:
    other = file.with_name("somebodys")
    file.rename(other)
    owned_by_somebody(other)
    file.symlink_to(other)


def writable_by_the_group(file: Path) -> None:
    file.chmod(0o660)


def writable_by_all(file: Path) -> None:
    file.chmod(0o606)


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


WAYS = [owned_by_somebody, linked_to_somebodys, writable_by_the_group, writable_by_all, a_pipe]


@pytest.mark.parametrize("changed", WAYS)
def test_a_login_file_that_others_can_write_is_not_used(
    login_file: Path, changed: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    connection.save_login(LOGIN)
    assert connection.saved_login() == LOGIN

    changed(login_file)

    with pytest.raises(typer.Exit):
        connection.saved_login()
    assert str(login_file) in capsys.readouterr().err


@pytest.mark.parametrize("changed", WAYS)
def test_an_agents_configuration_that_others_can_write_is_not_used(
    places: Places, changed: Callable[[Path], None]
) -> None:
    config.save(places, AGENT)
    assert config.load(places) == AGENT

    changed(places.config_file)

    with pytest.raises(ConfigUnreadable, match=r"config\.toml"):
        config.load(places)


def save_login(folder: Path) -> Path:
    connection.save_login(LOGIN)
    return folder / "holdfast" / "login.json"


def save_agent(folder: Path) -> Path:
    private_files.write(folder / "credential.key", b"a secret")
    return folder / "credential.key"


@pytest.mark.parametrize(("save", "part"), [(save_login, "holdfast/login.part"), (save_agent, "credential.key.part")])
def test_a_secret_is_not_written_into_a_file_left_in_its_place_by_others(
    tmp_path: Path, login_file: Path, save: Callable[[Path], Path], part: str
) -> None:
    left = tmp_path / part
    left.parent.mkdir(exist_ok=True)
    victim = tmp_path / "victim"
    victim.write_text("somebody else's")
    left.symlink_to(victim)
    file = save(tmp_path)
    assert victim.read_text() == "somebody else's"
    assert stat.S_IMODE(file.lstat().st_mode) == 0o600

    left.write_text("left over")
    left.chmod(0o666)
    with left.open("rb") as opened_by_somebody:
        file = save(tmp_path)
        assert b"secret" not in opened_by_somebody.read()
    assert stat.S_IMODE(file.lstat().st_mode) == 0o600
