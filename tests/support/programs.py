"""A PATH of the tests' own: the programs of this machine without some of them, and with others in their place."""

import os
from pathlib import Path


def all_programs_but(folder: Path, *hidden: str) -> Path:
    """Fill a folder with links to every program of this machine whose name begins with none of the hidden words."""
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):  # the first of a name counts
        for program in Path(place).glob("*") if Path(place).is_dir() else ():
            if not program.name.startswith(hidden):
                (folder / program.name).unlink(missing_ok=True)
                (folder / program.name).symlink_to(program)
    return folder


def replace_program(folder: Path, name: str, script: str) -> None:
    """Put a shell script in the place of a program."""
    (folder / name).unlink(missing_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
