"""Command-line arguments."""

import argparse
import os
from collections.abc import Sequence

from backup_agent import AGENT_VERSION
from backup_agent.commands import NAMES, command
from backup_agent.problems import EXIT_CODES


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Determines the terminal width itself: argparse would import all compression modules to do so."""

    def __init__(self, prog: str) -> None:
        try:
            columns = os.get_terminal_size().columns
        except OSError:
            columns = 80
        super().__init__(prog, width=columns - 2)


def parser(names: Sequence[str]) -> argparse.ArgumentParser:
    """Build a parser for these commands."""
    top = argparse.ArgumentParser(
        prog="backup-agent",
        description="Runs the backup service's jobs on this machine.",
        epilog=EXIT_CODES,
        formatter_class=Formatter,
    )
    top.add_argument("--version", action="version", version=f"backup-agent {AGENT_VERSION}")
    verbs = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in names:
        loaded = command(name)
        verb = verbs.add_parser(
            name,
            help=(loaded.__doc__ or "").partition("\n")[0],
            description=loaded.__doc__,
            epilog=EXIT_CODES,
            formatter_class=Formatter,
        )
        loaded.add_arguments(verb)
        verb.set_defaults(run=loaded.run)
    return top


def parsed(words: Sequence[str]) -> argparse.Namespace:
    return parser([words[0]] if words and words[0] in NAMES else NAMES).parse_args(words)
