"""The commands of `backup-agent`, each in a file of its own; its docstring is its help."""

from argparse import ArgumentParser, Namespace
from typing import Protocol

from backup_agent.commands import install_service, once, register, run, secret, status, unregister
from backup_agent.places import Places


class Command(Protocol):
    __doc__: str | None
    NAME: str

    def add_arguments(self, parser: ArgumentParser) -> None: ...
    def run(self, places: Places, arguments: Namespace) -> int: ...


COMMANDS: tuple[Command, ...] = (register, status, run, once, unregister, secret, install_service)
