"""Record the output of real engines, for tests that replay it.

    python tools/record_engine_fixtures.py /usr/bin/borg .engines/borg-1.4/bin/borg .engines/borg-2.0/bin/borg
                                           [--only CASE]

Each case becomes tests/engine/recorded/<version>/<case>/ with ``stdout``, ``stderr``, ``exit.json`` (code, signal) and
``command.json`` (argv, environment, names of secrets). Run as root: the cases need a small file system of their own,
unreadable files and a second user's view. Everything happens under /tmp/holdfast-fixtures. Names of the machine and of
the engine's installation are replaced, so that a recording does not reveal where it was made.
"""

import argparse
import json
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from engine_cases import CASES, ONLY_OF_MAJOR
from engine_world import Run, World

from backup_engine.detect import EngineProgram, detect

RECORDED = Path(__file__).resolve().parent.parent / "tests" / "engine" / "recorded"


def neutral(program: EngineProgram) -> Iterator[tuple[re.Pattern[bytes], bytes]]:
    """Patterns that identify this machine, with their replacements in a recording."""
    installation = Path(program.path).resolve().parent.parent
    if installation != Path("/usr"):
        yield re.compile(re.escape(os.fsencode(installation))), b"/opt/borg"
    yield re.compile(rb"\b" + re.escape(os.fsencode(socket.gethostname())) + rb"\b"), b"fixture-host"
    yield re.compile(rb"\b" + re.escape(os.fsencode(socket.getfqdn())) + rb"\b"), b"fixture-host"
    yield re.compile(rb"Platform: Linux .*?(\\n|\n)"), rb"Platform: Linux fixture-host x86_64\1"


def store(program: EngineProgram, case: str, run: Run) -> None:
    folder = RECORDED / program.version / case
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("stdout", run.stdout), ("stderr", run.stderr)):
        for pattern, replacement in neutral(program):
            content = pattern.sub(replacement, content)
        (folder / name).write_bytes(content)
    (folder / "exit.json").write_text(as_json({"code": run.code, "signal": run.signal}))
    command = {
        "argv": run.command.argv,
        "environment": run.command.environment,
        "secrets": sorted(run.command.secrets),
        "working_directory": run.command.working_directory,
    }
    (folder / "command.json").write_text(as_json(command))


def as_json(document: Mapping[str, object]) -> str:
    return json.dumps(document, indent=2) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    parser.add_argument("--only", metavar="CASE", action="append", default=[])
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("Recording needs root.")
    for path in options.programs:
        program = detect(path, str(Path.home()))
        for case in CASES:
            if options.only and case.__name__ not in options.only:
                continue
            if ONLY_OF_MAJOR.get(case.__name__, program.major) != program.major:
                continue
            world = World(program)
            try:
                run = case(world)
            finally:
                world.clear()
            store(program, case.__name__, run)
            print(f"{program.version} {case.__name__}: code {run.code} signal {run.signal}")


if __name__ == "__main__":
    main()
