"""Install and start the agent as a service of the system: systemd on Linux, launchd on macOS.

As root the agent becomes a system service, else a service of this user. `--print` only shows the unit.
"""

import os
import sys
from argparse import ArgumentParser, Namespace

from backup_agent import config
from backup_agent.install import launchd, systemd
from backup_agent.install.units import Installation, apply
from backup_agent.places import Places
from backup_agent.problems import Problem


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--print", action="store_true", dest="only_print", help="print the unit and change nothing")
    parser.add_argument("--no-start", action="store_true", help="write the unit, but do not enable or start it")
    parser.add_argument("--remove", action="store_true", help="stop the service and remove its unit")


def run(places: Places, arguments: Namespace) -> int:
    installation = _installation(places)
    if arguments.only_print:
        print(installation.content, end="")
        return 0
    if arguments.remove:
        remove_service(places)
        return 0
    config.load(places)  # an unregistered agent would only fail as a service
    installation.unit.parent.mkdir(parents=True, exist_ok=True)
    installation.unit.write_text(installation.content)
    print(f"Wrote {installation.unit}.")
    if not arguments.no_start:
        apply(installation.starting, must_succeed=True)
        print("The service is enabled and started.")
    return 0


def remove_service(places: Places) -> None:
    """Stop the service and remove its unit, if there is one."""
    installation = _installation(places)
    if installation.unit.exists():
        apply(installation.removing)
        installation.unit.unlink(missing_ok=True)
        apply(installation.forgetting)
        print(f"Removed {installation.unit}.")


def _installation(places: Places) -> Installation:
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    if sys.platform == "darwin":
        return launchd.installation(places, is_root=is_root)
    if sys.platform.startswith("linux"):
        return systemd.installation(places, is_root=is_root)
    raise Problem("A service can be installed only on Linux and macOS; elsewhere, run `backup-agent run` at start-up.")
