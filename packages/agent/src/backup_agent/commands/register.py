"""Enroll this machine with a one-time token, and keep the credential."""

import os
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from backup_agent import AGENT_VERSION, config, machine
from backup_agent.capabilities import CAPABILITIES
from backup_agent.client import Client, NoAnswer, NotAllowed, Refusal
from backup_agent.config import Config
from backup_agent.engines import Engines
from backup_agent.places import Places
from backup_agent.problems import Problem, RefusedByService, ServiceUnreachable
from backup_agent.runtime_api import RuntimeApi
from backup_protocol import Register, Registered

TOKEN_VARIABLE = "BACKUP_AGENT_TOKEN"  # noqa: S105 -- the name of a variable


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--server", required=True, metavar="URL", help="address of the service, https://…")
    parser.add_argument(
        "--token",
        metavar="TOKEN",
        help=f"one-time enrollment token; `-` reads standard input (default: {TOKEN_VARIABLE})",
    )
    parser.add_argument("--name", help="name of this machine in the service (default: its host name)")
    parser.add_argument("--ca-file", metavar="FILE", help="certificates of a private CA, in PEM format")
    parser.add_argument("--max-jobs", type=int, default=1, metavar="N", help="concurrent jobs (default: 1)")
    parser.add_argument("--borg1", metavar="PATH", help="program of BorgBackup 1, if not in the PATH")
    parser.add_argument("--borg2", metavar="PATH", help="program of BorgBackup 2, if not in the PATH")
    parser.add_argument(
        "--restore-to",
        action="append",
        metavar="FOLDER",
        help="folder that the service may restore files to; repeatable (default: all except system folders)",
    )
    parser.add_argument(
        "--force", action="store_true", help="register again even if this machine is already registered"
    )


def run(places: Places, arguments: Namespace) -> int:
    if places.config_file.exists() and not arguments.force:
        raise Problem(
            f"This machine is already registered ({places.config_file}); unregister it first, or add --force."
        )
    token = _token(arguments.token)
    if not 1 <= arguments.max_jobs <= config.MOST_JOBS:
        raise Problem(f"--max-jobs must be from 1 to {config.MOST_JOBS}.")
    ca_file = config.checked_ca_file(arguments.ca_file)
    _warn_of_plain_http(arguments.server)
    programs = {1: arguments.borg1, 2: arguments.borg2}
    engines = {major: str(Path(path).absolute()) for major, path in programs.items() if path}
    name = arguments.name or machine.hostname()
    wanted = Config(
        server_url=arguments.server.rstrip("/"),
        agent_id="",
        credential="",
        name=name,
        ca_file=ca_file,
        max_jobs=arguments.max_jobs,
        engines=engines,
        restore_to=_restore_to(places, arguments.restore_to),
    )
    wanted = _as_owner_has_set(places, wanted)
    found = Engines(places, config.with_environment(wanted).engines)
    answer = _registered(Client(arguments.server, ca_file=ca_file), token, name, found)
    config.save(places, replace(wanted, agent_id=answer.agent_id, credential=answer.agent_token))
    print(f"Registered at {arguments.server} as {name} ({answer.agent_id}); configuration in {places.config_file}.")
    return 0


def _restore_to(places: Places, given: list[str] | None) -> tuple[str, ...] | None:
    """The given folders, or those of the previous registration if none are given."""
    if given is not None:
        return config.checked_folders(given)
    try:
        return config.load(places).restore_to
    except Problem:
        return None


def _as_owner_has_set(places: Places, wanted: Config) -> Config:
    """Keep what the machine's owner has allowed: a new registration does not change it."""
    try:
        before = config.load(places)
    except Problem:
        return wanted
    return replace(
        wanted,
        scripts_accept=before.scripts_accept,
        services_allowed=before.services_allowed,
        databases_allowed=before.databases_allowed,
        database_programs=before.database_programs,
    )


def _token(given: str | None) -> str:
    token = sys.stdin.readline() if given == "-" else given or os.environ.get(TOKEN_VARIABLE, "")
    if not token.strip():
        raise Problem(f"An enrollment token is needed: --token TOKEN, --token - or {TOKEN_VARIABLE}.")
    return token.strip()


def _registered(client: Client, token: str, name: str, engines: Engines) -> Registered:
    message = Register(
        enrollment_token=token,
        name=name,
        hostname=machine.hostname(),
        os=machine.system(),
        arch=machine.architecture(),
        agent_version=AGENT_VERSION,
        engine_versions=engines.versions(),
        capabilities=CAPABILITIES,
    )
    try:
        return RuntimeApi(client).register(message)
    except NotAllowed as refusal:
        raise RefusedByService(f"The service refuses the token: {refusal} Tokens work once and expire.") from refusal
    except NoAnswer as failure:
        lost = " The token may already be used; if so, create a new one." if failure.was_sent else ""
        raise ServiceUnreachable(f"{failure}{lost}") from failure
    except Refusal as refusal:
        raise Problem(f"The service refused the registration: {refusal}") from refusal
    finally:
        client.close()


def _warn_of_plain_http(server: str) -> None:
    parts = urlsplit(server)
    if parts.scheme == "http" and not _is_this_machine(parts.hostname or ""):
        sentence = "warning: the address begins with http://, so the credential is sent unencrypted."
        print(f"backup-agent: {sentence}", file=sys.stderr)


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
