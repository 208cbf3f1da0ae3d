"""Folders for the agent's configuration and state on this system."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from backup_engine.frozen import frozen

NAME = "backup-agent"
CONFIG_VARIABLE = "BACKUP_AGENT_CONFIG_DIR"
STATE_VARIABLE = "BACKUP_AGENT_STATE_DIR"
SERVICE_CONFIG = Path("/etc") / NAME
SERVICE_STATE = Path("/var/lib") / NAME


@frozen
class Places:
    """`config` contains the configuration, `state` the agent's working data."""

    config: Path
    state: Path

    @property
    def config_file(self) -> Path:
        return self.config / "config.toml"

    @property
    def scripts(self) -> Path:
        """Scripts that the owner of the machine has installed, for the service to start by name."""
        return self.config / "scripts"

    @property
    def key_file(self) -> Path:
        return self.config / "credential.key"

    @property
    def secrets_file(self) -> Path:
        return self.config / "secrets.json"

    @property
    def jobs(self) -> Path:
        return self.state / "jobs"

    @property
    def calls(self) -> Path:
        return self.state / "calls"

    @property
    def engine(self) -> Path:
        """The engine's cache, keys and security records."""
        return self.state / "engine"

    @property
    def status_file(self) -> Path:
        return self.state / "status.json"

    @property
    def lock_file(self) -> Path:
        return self.state / "lock"

    @property
    def install_id_file(self) -> Path:
        return self.state / "install-id"

    @property
    def holds(self) -> Path:
        """Journal of services stopped by backups: see `backup_jobs.stopped_services`."""
        return self.state / "holds"

    @property
    def sizes_file(self) -> Path:
        return self.state / "sizes.json"


def find_places(
    environment: Mapping[str, str] = os.environ,
    platform: str = sys.platform,
    *,
    is_root: bool | None = None,
    home: Path | None = None,
) -> Places:
    """Return the agent's folders. Environment variables override the system's defaults."""
    config = Path(environment[CONFIG_VARIABLE]) if environment.get(CONFIG_VARIABLE) else None
    state = Path(environment[STATE_VARIABLE]) if environment.get(STATE_VARIABLE) else None
    if config is None:
        config = _usual_config(environment, platform, _runs_as_root() if is_root is None else is_root, home)
    if state is None:
        state = SERVICE_STATE if config == SERVICE_CONFIG else config / "state"
    return Places(config.absolute(), state.absolute())


def _usual_config(environment: Mapping[str, str], platform: str, is_root: bool, home: Path | None) -> Path:
    if platform == "win32":
        return Path(environment.get("PROGRAMDATA", r"C:\ProgramData")) / NAME
    home = Path.home() if home is None else home
    if platform == "darwin":
        return home / "Library" / "Application Support" / NAME
    return SERVICE_CONFIG if is_root else home / ".config" / NAME


def _runs_as_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0
