"""`config.toml`: the address of the service, this machine's identity there, and settings of the agent."""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from backup_agent import private_files, sealing
from backup_agent.places import Places
from backup_agent.problems import NotRegistered, Problem
from backup_agent.toml_text import toml_text
from backup_engine import own_files
from backup_engine.frozen import frozen

CREDENTIAL = "agent credential"
MOST_JOBS = 16
DATABASE = re.compile(r"[a-z_]+:.+")
SCRIPTS_ACCEPTED = ("none", "installed", "any")


class ConfigUnreadable(Problem):
    """The configuration exists but is not valid."""


@frozen
class Config:
    server_url: str
    agent_id: str
    credential: str = field(repr=False)
    name: str = ""
    ca_file: str | None = None
    max_jobs: int = 1
    cancel_grace_seconds: float = 30.0
    max_backoff_seconds: float = 300.0
    renew_seconds: float = 60.0
    """Time that an agent remains idle after work before it restarts to free memory."""
    engines: Mapping[int, str] = field(default_factory=dict)
    """Engine programs by major, for those that are not in the usual places."""
    restore_to: tuple[str, ...] | None = None
    """Folders to which the service may restore files; None selects the default, see `restore_to`."""
    scripts_accept: str = "none"
    """Scripts that the service may run on this machine: `none`, `installed` (those in the scripts folder), or `any`."""
    services_allowed: tuple[str, ...] = ()
    """Units that backups may stop and restart on this machine."""
    databases_allowed: tuple[str, ...] = ()
    """Databases that the service may dump on this machine; see `dump_rule`."""
    database_programs: tuple[str, ...] = ()
    """Folders searched first for the database dump programs."""


def load(places: Places) -> Config:
    """Read the configuration. Raise NotRegistered if there is none, ConfigUnreadable if it is invalid."""
    try:
        raw = own_files.read(places.config_file)
    except FileNotFoundError as error:
        raise NotRegistered(
            f"This machine is not registered ({places.config_file} does not exist);"
            " run: backup-agent register --server URL --token TOKEN"
        ) from error
    except OSError as error:
        raise ConfigUnreadable(f"{places.config_file} cannot be read: {error.strerror}.") from error
    except own_files.UntrustedFile as error:
        raise ConfigUnreadable(str(error)) from error
    try:
        content = tomllib.loads(raw.decode())
        return _config(content, sealing.key_of(places.key_file))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigUnreadable(f"{places.config_file} is damaged ({error}); repair it, or register again.") from error


def save(places: Places, config: Config) -> None:
    private_files.make_folder(places.config)
    content: dict[str, Any] = {
        "server_url": config.server_url,
        "agent_id": config.agent_id,
        "name": config.name,
        "credential": sealing.seal(sealing.key_of(places.key_file), config.credential, CREDENTIAL),
        "ca_file": config.ca_file,
        "max_jobs": config.max_jobs,
        "cancel_grace_seconds": config.cancel_grace_seconds,
        "max_backoff_seconds": config.max_backoff_seconds,
        "renew_seconds": config.renew_seconds,
        "restore_to": None if config.restore_to is None else list(config.restore_to),
        "engines": {f"borg{major}": path for major, path in sorted(config.engines.items())},
        "scripts": {"accept": config.scripts_accept},
        "services": {"allow": list(config.services_allowed)},
        "databases": {"allow": list(config.databases_allowed), "programs": list(config.database_programs)},
    }
    private_files.write(places.config_file, toml_text(content, HEADING).encode())


HEADING = """\
The agent's configuration, written by `backup-agent register`.
The credential is sealed with credential.key beside this file; keep both readable only by their owner."""


def forget(places: Places) -> None:
    """Remove this machine's registration. Secrets of repositories and the state folder remain."""
    places.config_file.unlink(missing_ok=True)


def with_environment(config: Config, environment: Mapping[str, str] = os.environ) -> Config:
    """Apply overrides from the environment: BACKUP_AGENT_MAX_JOBS, BACKUP_AGENT_BORG1 and BACKUP_AGENT_BORG2."""
    engines = dict(config.engines)
    for major in (1, 2):
        if path := environment.get(f"BACKUP_AGENT_BORG{major}"):
            engines[major] = path
    jobs = environment.get("BACKUP_AGENT_MAX_JOBS")
    try:
        return replace(config, engines=engines, max_jobs=_jobs(int(jobs)) if jobs else config.max_jobs)
    except ValueError as error:
        raise ConfigUnreadable(f"BACKUP_AGENT_MAX_JOBS is not a number from 1 to {MOST_JOBS}: {jobs}.") from error


def _config(content: Mapping[str, Any], key: bytes) -> Config:
    engines = content.get("engines", {})
    return Config(
        server_url=_text(content, "server_url"),
        agent_id=_text(content, "agent_id"),
        name=str(content.get("name", "")),
        credential=sealing.unseal(key, _text(content, "credential"), CREDENTIAL),
        ca_file=str(content["ca_file"]) if content.get("ca_file") else None,
        max_jobs=_jobs(content.get("max_jobs", 1)),
        cancel_grace_seconds=_seconds(content, "cancel_grace_seconds", 30.0),
        max_backoff_seconds=_seconds(content, "max_backoff_seconds", 300.0),
        renew_seconds=_seconds(content, "renew_seconds", 60.0),
        restore_to=_folders(content.get("restore_to")),
        engines={major: str(engines[f"borg{major}"]) for major in (1, 2) if engines.get(f"borg{major}")},
        scripts_accept=_accepted(content.get("scripts", {})),
        services_allowed=_units(content.get("services", {}).get("allow", [])),
        databases_allowed=_databases(content.get("databases", {}).get("allow", [])),
        database_programs=_programs(content.get("databases", {}).get("programs", [])),
    )


def _accepted(scripts: Mapping[str, Any]) -> str:
    accept = scripts.get("accept", "none")
    if accept not in SCRIPTS_ACCEPTED:
        raise ValueError(f"accept in [scripts] must be one of {', '.join(SCRIPTS_ACCEPTED)}")
    return str(accept)


def _units(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise ValueError("allow in [services] must be a list of unit names")
    return tuple(value)


def _databases(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and DATABASE.fullmatch(name) for name in value):
        raise ValueError('allow in [databases] must be a list such as ["postgresql:shop", "sqlite:/srv/app/app.db"]')
    return tuple(value)


def _programs(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(
        isinstance(folder, str) and _is_normal(folder) and ":" not in folder for folder in value
    ):
        raise ValueError("programs in [databases] must be a list of absolute paths without '..' and ':'")
    return tuple(value)


def _text(content: Mapping[str, Any], name: str) -> str:
    value = content[name]
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is not a string")
    return value


def _seconds(content: Mapping[str, Any], name: str, default: float) -> float:
    seconds = float(content.get(name, default))
    if not 1 <= seconds <= 86_400:
        raise ValueError(f"{name} must be from 1 to 86400")
    return seconds


def _jobs(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_JOBS:
        raise ValueError(f"max_jobs must be a number from 1 to {MOST_JOBS}")
    return value


def _folders(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(folder, str) and _is_normal(folder) for folder in value):
        raise ValueError("restore_to must be a list of absolute paths without '..'")
    return tuple(value)


def _is_normal(folder: str) -> bool:
    return folder.startswith("/") and "\0" not in folder and ".." not in folder.split("/")


def checked_folders(folders: list[str]) -> tuple[str, ...]:
    """Return the folders as a tuple. Raise Problem unless all are absolute paths."""
    try:
        return _folders(folders) or ()
    except ValueError as error:
        raise Problem(f"{error}.") from error


def checked_ca_file(path: str | None) -> str | None:
    """Return the absolute path of a certificate file. Raise Problem if it cannot be read."""
    if path is None:
        return None
    file = Path(path).absolute()
    if not os.access(file, os.R_OK):
        raise Problem(f"The certificate file {file} cannot be read.")
    return str(file)
