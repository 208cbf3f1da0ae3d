"""The configuration file: complete, private, and without the credential in plain text."""

import stat
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from backup_agent import config
from backup_agent.config import Config, ConfigUnreadable
from backup_agent.places import Places
from backup_agent.problems import NotRegistered
from backup_agent.sealing import CannotOpen

CREDENTIAL = "bk_agent_0123456789abcdef"
CONFIG = Config(
    server_url="https://backup.example.org",
    agent_id="agent-1",
    credential=CREDENTIAL,
    name='a "machine" with ümläuts\t\x7f',
    ca_file="/etc/ssl/own.pem",
    max_jobs=2,
    engines={1: "/opt/borg/bin/borg"},
    databases_allowed=("postgresql:shop", 'sqlite:/srv/ä "b".db'),
    database_programs=("/usr/lib/postgresql/17/bin",),
)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "config", tmp_path / "state")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_saved_configuration_loads_unchanged(places: Places) -> None:
    config.save(places, CONFIG)

    assert config.load(places) == CONFIG


def test_only_the_owner_can_read_it_even_if_the_folder_was_open_to_others(places: Places) -> None:
    places.config.mkdir(mode=0o755)

    config.save(places, CONFIG)

    assert mode_of(places.config) == 0o700
    assert {mode_of(places.config_file), mode_of(places.key_file)} == {0o600}


def test_the_credential_is_not_in_the_file_and_no_other_files_are_left(places: Places) -> None:
    config.save(places, CONFIG)

    assert CREDENTIAL not in places.config_file.read_text()
    assert "0123456789abcdef" not in places.config_file.read_text()
    assert {file.name for file in places.config.iterdir()} == {"config.toml", "credential.key"}


def test_a_copied_file_does_not_reveal_the_credential_without_the_key(places: Places, tmp_path: Path) -> None:
    config.save(places, CONFIG)
    thief = Places(tmp_path / "thief", tmp_path / "thief")
    thief.config.mkdir()
    thief.config_file.write_bytes(places.config_file.read_bytes())

    with pytest.raises(CannotOpen):
        config.load(thief)


def test_a_machine_without_configuration_is_not_registered(places: Places) -> None:
    with pytest.raises(NotRegistered, match="backup-agent register"):
        config.load(places)


@pytest.mark.parametrize("damage", ["", "server_url = 7", "not toml at all [", "max_jobs = 0"])
def test_a_damaged_file_is_named_in_the_error(places: Places, damage: str) -> None:
    config.save(places, CONFIG)
    kept = places.config_file.read_text()
    if damage.startswith("max_jobs"):
        damage = kept.replace("max_jobs = 2", damage)
    places.config_file.write_text(damage)

    with pytest.raises(ConfigUnreadable, match=r"config\.toml"):
        config.load(places)


def test_the_environment_overrides_engines_and_the_number_of_jobs(places: Places) -> None:
    changed = config.with_environment(CONFIG, {"BACKUP_AGENT_BORG1": "/borg", "BACKUP_AGENT_MAX_JOBS": "4"})

    assert changed == replace(CONFIG, engines={1: "/borg"}, max_jobs=4)
    with pytest.raises(ConfigUnreadable):
        config.with_environment(CONFIG, {"BACKUP_AGENT_MAX_JOBS": "many"})


def test_the_file_is_standard_toml(places: Places) -> None:
    config.save(places, CONFIG)

    content = tomllib.loads(places.config_file.read_text())
    assert content["name"] == CONFIG.name
    assert content["engines"] == {"borg1": "/opt/borg/bin/borg"}


@pytest.mark.parametrize("folders", [None, (), ("/srv/restored", "/home")])
def test_the_folders_allowed_for_restores_are_saved(places: Places, folders: tuple[str, ...] | None) -> None:
    config.save(places, replace(CONFIG, restore_to=folders))

    assert config.load(places).restore_to == folders


@pytest.mark.parametrize("value", ['"/srv"', '["srv"]', '["/srv/../etc"]', "[1]", "true"])
def test_an_invalid_rule_for_restores_stops_the_agent(places: Places, value: str) -> None:
    """Otherwise, a misspelt rule would be ignored."""
    config.save(places, CONFIG)
    places.config_file.write_text(f"restore_to = {value}\n" + places.config_file.read_text())

    with pytest.raises(ConfigUnreadable, match="restore_to"):
        config.load(places)
