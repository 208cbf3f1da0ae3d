"""The commands of `backup-agent`, one module each; the module's docstring is the help.

Only the requested command is imported: an agent runs for months and never unloads a module.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from backup_agent.places import Places

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

NAMES = ("register", "status", "run", "once", "unregister", "secret", "install-service", "uninstall")


class Command(Protocol):
    __doc__: str | None

    def add_arguments(self, parser: "ArgumentParser") -> None: ...
    def run(self, places: Places, arguments: "Namespace | None") -> int: ...


def command(name: str) -> Command:
    return cast("Command", import_module(f"backup_agent.commands.{name.replace('-', '_')}"))
