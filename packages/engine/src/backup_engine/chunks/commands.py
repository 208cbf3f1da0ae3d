"""Commands that read chunks for a caller on another machine, each in a separate run. They are for agents, which can
only run calls.

The programs are part of this package. So a caller chooses an archive or chunks, but never a program or a command line.
"""

import json
import re
import secrets
import shlex
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backup_engine.borg1.list_files import COMPLETE_FORMAT
from backup_engine.borg2.init import ENCRYPTION_MODES
from backup_engine.borg2.list_files import ADDED_KEYS
from backup_engine.command import LARGEST_STREAM, Command, Machine
from backup_engine.detect import EngineProgram, EngineUnsupported
from backup_engine.environment import SEARCH_PATH
from backup_engine.far.remote_helper import interpreter_of
from backup_engine.requests import (
    InvalidRequest,
    ListArchivesRequest,
    ReadChunksRequest,
    RepositoryLocation,
)

if TYPE_CHECKING:
    from backup_engine.interface import Engine

HELPER = Path(__file__).with_name("helper.py")
"""Program that runs under the engine's own Python."""
HELPER_2 = Path(__file__).with_name("helper_2.py")
"""The same for engine 2; it needs `helper.py` in the same folder."""
SELFTEST_REPOSITORY = Path(__file__).with_name("selftest_repository.py")
NARROWED = Path(__file__).with_name("narrowed.py")
"""Program that runs an engine's command for a few paths."""
MOST_IDS = 500
"""Maximum number of chunks in one run: their ids form a single argument, which must stay below 128 KiB."""
LOCK_WAIT_SECONDS = 60
ID = re.compile(r"[0-9a-f]{64}")
REPOSITORY, ARCHIVE = "@repository", "@archive"


def read_command(engine: "Engine", location: RepositoryLocation, request: ReadChunksRequest) -> Command:
    """Command that prints the ids of an archive's metadata chunks, or the content of such chunks, as frames of the
    helper.

    Raise InvalidRequest, or EngineUnsupported if the engine has no Python of its own.
    """
    if not all(map(ID.fullmatch, (*([request.archive] if request.archive else []), *request.ids))):
        raise InvalidRequest("The id of an archive or chunk is not valid.")
    if bool(request.archive) == bool(request.ids) or len(request.ids) > MOST_IDS:
        raise InvalidRequest(f"One archive is needed, or 1 to {MOST_IDS} chunks.")
    ask = {"op": "ids", "archive": request.archive} if request.archive else {"op": "get", "ids": request.ids}
    opening = {"repository": location.path, "niceness": 0, "lock_wait": LOCK_WAIT_SECONDS}
    helper = HELPER if engine.program.major == 1 else HELPER_2
    command = engine.list_archives(location, ListArchivesRequest(last=1))
    argv = (*_python(engine.program), str(helper), "--once", json.dumps(opening), json.dumps(ask))
    return replace(command, argv=argv, most_output=LARGEST_STREAM)


def narrowed(command: Command, paths: Collection[str]) -> Command:
    """Given an engine's command for these paths of an archive, return an equivalent one that costs less: see
    `narrowed.py`.

    Calls remain as they are, because an agent builds its commands, and narrows them, itself.
    """
    if not paths or command.call is not None:
        return command
    if command.machine is not None:
        return replace(command, narrows=isinstance(command.machine, Machine) and command.machine.python is not None)
    python = interpreter_of(command.argv[0])
    if python is None:
        return command
    return replace(command, argv=(*python, str(NARROWED), *command.argv), shown=shlex.join(command.argv))


def selftest_command(program: EngineProgram) -> Command:
    """Command that creates the self-test's repository and reads it both ways. Raise EngineUnsupported."""
    given = specification(program.path, program.major)
    helper = HELPER if program.major == 1 else HELPER_2
    argv = (*_python(program), str(SELFTEST_REPOSITORY), "--once", str(helper), json.dumps(given))
    return Command(argv, {"PATH": SEARCH_PATH, "LANG": "C.UTF-8"})


def specification(program: str, major: int) -> dict[str, Any]:
    """Describes how the engine creates and lists the repository of the self-test."""
    return {
        "program": program,
        "commands": _commands(major),
        "environment": {
            "TZ": "UTC",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "BORG_PASSPHRASE": secrets.token_hex(16),
            "BORG_SELFTEST": "disabled",
        },
    }


def _commands(major: int) -> Mapping[str, tuple[str, ...]]:
    """The engine's commands for the self-test, by major version."""
    if major == 1:
        return {
            "make": ("init", "--encryption", "repokey-blake2", REPOSITORY),
            "back_up": ("create", f"{REPOSITORY}::{ARCHIVE}", "tree"),
            "archive_ids": ("list", "--format", "{archive} {id}{NL}", REPOSITORY),
            "listing": ("list", "--format", COMPLETE_FORMAT, f"{REPOSITORY}::{ARCHIVE}"),
        }
    mode, *options = ENCRYPTION_MODES["aes256-ocb"]
    here = ("-r", REPOSITORY)
    return {
        "make": ("repo-create", *here, f"--encryption={mode}", *options),
        "back_up": ("create", *here, ARCHIVE, "tree"),
        "archive_ids": ("repo-list", *here, "--format", "{archive} {id}{NL}"),
        "listing": ("list", *here, "--json-lines", f"--format={ADDED_KEYS}", ARCHIVE),
    }


def _python(program: EngineProgram) -> tuple[str, ...]:
    python = interpreter_of(program.path)
    if python is None:
        raise EngineUnsupported("The engine is a standalone program without its own Python.")
    return tuple(python)
