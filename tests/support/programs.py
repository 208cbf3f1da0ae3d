"""A PATH for tests: the programs of this machine without some of them, and with replacements for others."""

import os
from pathlib import Path


def all_programs_but(folder: Path, *hidden: str) -> Path:
    """Fill a folder with links to all programs of this machine except those whose names start with one of the hidden
    words.
    """
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):  # the first of each name counts
        for program in Path(place).glob("*") if Path(place).is_dir() else ():
            if not program.name.startswith(hidden):
                (folder / program.name).unlink(missing_ok=True)
                (folder / program.name).symlink_to(program)
    return folder


def replace_program(folder: Path, name: str, script: str) -> None:
    """Replace a program with a shell script."""
    (folder / name).unlink(missing_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
