"""Store secrets of repositories on this machine: `secret set REF`, `secret list`, `secret remove REF`.

A repository whose passphrase stays on the agent names its secret by a reference, which the service shows.
"""

import getpass
import sys
from argparse import ArgumentParser, Namespace

from backup_agent.places import Places
from backup_agent.problems import Problem
from backup_agent.secret_store import SecretStore


def add_arguments(parser: ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    setting = verbs.add_parser("set", help="store a secret; prompts for it, or reads standard input")
    setting.add_argument("ref", metavar="REF")
    verbs.add_parser("list", help="list the references of stored secrets, never their values")
    removing = verbs.add_parser("remove", help="forget a secret")
    removing.add_argument("ref", metavar="REF")


def run(places: Places, arguments: Namespace) -> int:
    store = SecretStore(places)
    if arguments.verb == "list":
        for name in store.names():
            print(name)
    elif arguments.verb == "set":
        store.set(arguments.ref, _asked(arguments.ref))
        print(f"Kept {arguments.ref}.")
    elif not store.remove(arguments.ref):
        raise Problem(f"No secret named {arguments.ref}.")
    else:
        print(f"Removed {arguments.ref}.")
    return 0


def _asked(ref: str) -> str:
    """Prompt for the secret without echo on a terminal; otherwise read the first line of standard input."""
    if sys.stdin.isatty():
        value = getpass.getpass(f"Secret {ref}: ")
        if value != getpass.getpass("Again: "):
            raise Problem("The entries do not match; nothing was stored.")
        return value
    return sys.stdin.readline().rstrip("\r\n")
