"""Where configuration and state are stored, by operating system and user."""

from pathlib import Path

import pytest

from backup_agent.places import find_places

HOME = Path("/home/anna")


@pytest.mark.parametrize(
    ("platform", "is_root", "config", "state"),
    [
        ("linux", True, "/etc/backup-agent", "/var/lib/backup-agent"),
        ("linux", False, "/home/anna/.config/backup-agent", "/home/anna/.config/backup-agent/state"),
        (
            "darwin",
            False,
            "/home/anna/Library/Application Support/backup-agent",
            "/home/anna/Library/Application Support/backup-agent/state",
        ),
    ],
)
def test_each_system_has_its_usual_folders(platform: str, is_root: bool, config: str, state: str) -> None:
    places = find_places({}, platform, is_root=is_root, home=HOME)

    assert (str(places.config), str(places.state)) == (config, state)
    assert places.config_file.name == "config.toml"


def test_windows_stores_the_configuration_below_program_data() -> None:
    places = find_places({"PROGRAMDATA": "/ProgramData"}, "win32", is_root=False, home=HOME)

    assert places.config == Path("/ProgramData/backup-agent")


def test_the_environment_overrides_the_defaults() -> None:
    places = find_places({"BACKUP_AGENT_CONFIG_DIR": "/srv/agent"}, "linux", is_root=True, home=HOME)

    assert (places.config, places.state) == (Path("/srv/agent"), Path("/srv/agent/state"))
    moved = find_places({"BACKUP_AGENT_STATE_DIR": "/srv/state"}, "linux", is_root=True, home=HOME)
    assert (moved.config, moved.state) == (Path("/etc/backup-agent"), Path("/srv/state"))
