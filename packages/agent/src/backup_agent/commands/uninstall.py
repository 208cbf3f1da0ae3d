"""Remove everything of the agent from this machine: its service, registration, configuration and state."""

import os
import shutil
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from backup_agent.commands import unregister
from backup_agent.commands.install_service import remove_service
from backup_agent.commands.locking import is_running
from backup_agent.places import Places
from backup_agent.problems import AlreadyRunning, Problem


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--force", action="store_true", help="even if jobs or keys are left, or the service is unreachable"
    )


def run(places: Places, arguments: Namespace) -> int:
    _require_no_keys(places, force=arguments.force)
    if sys.platform == "darwin" or sys.platform.startswith("linux"):
        remove_service(places)
    if is_running(places):
        raise AlreadyRunning("The agent is running; stop it first.")
    if places.config_file.exists():
        unregister.run(places, arguments)
    for folder in (places.state, places.config):
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            raise Problem(f"{folder} cannot be removed completely; remove it by hand.")
        print(f"Removed {folder}.")
    return 0


def _require_no_keys(places: Places, *, force: bool) -> None:
    """Refuse to remove repository keys without --force: without its key a repository can never be opened again."""
    folders = (Path(folder) for folder, _, _ in os.walk(places.engine) if Path(folder).name == "keys")
    keys = sorted(file.name for folder in folders for file in folder.iterdir())
    if keys and not force:
        raise Problem(
            f"Repository keys are stored in {places.engine} ({', '.join(keys)}). Nothing was removed. Copy them to "
            "a safe"
            " place, then add --force."
        )
