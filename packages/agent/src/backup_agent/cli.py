"""`backup-agent`: the command line."""

import argparse
import sys
from collections.abc import Sequence

from backup_agent import AGENT_VERSION
from backup_agent.commands import NAMES, command
from backup_agent.places import find_places
from backup_agent.problems import EXIT_CODES, Problem


def parser(names: Sequence[str]) -> argparse.ArgumentParser:
    """A parser that knows these commands."""
    top = argparse.ArgumentParser(
        prog="backup-agent",
        description="Runs the backup service's jobs on this machine.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        loaded.add_arguments(verb)
        verb.set_defaults(run=loaded.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    asked = parser([words[0]] if words and words[0] in NAMES else NAMES).parse_args(words)
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
