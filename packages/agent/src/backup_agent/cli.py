"""`backup-agent`: the command line."""

import argparse
import sys
from collections.abc import Sequence

from backup_agent import AGENT_VERSION
from backup_agent.commands import COMMANDS
from backup_agent.places import find_places
from backup_agent.problems import EXIT_CODES, Problem


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="backup-agent",
        description="Runs the backup service's jobs on this machine.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"backup-agent {AGENT_VERSION}")
    verbs = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        summary = (command.__doc__ or "").partition("\n")[0]
        verb = verbs.add_parser(
            command.NAME,
            help=summary,
            description=command.__doc__,
            epilog=EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(verb)
        verb.set_defaults(run=command.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    asked = parser().parse_args(arguments)
    try:
        code: int = asked.run(find_places(), asked)
    except Problem as problem:
        print(f"backup-agent: {problem}", file=sys.stderr)
        return problem.exit_code
    except PermissionError as error:
        print(f"backup-agent: {error.filename}: {error.strerror}; are you the right user?", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"backup-agent: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code
