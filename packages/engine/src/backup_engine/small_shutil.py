"""The functions of `shutil` that an agent needs. `shutil` itself imports three compression libraries, which would take
half a megabyte of an idle agent.
"""

import os
from contextlib import suppress
from pathlib import Path


def which(program: str, path: str | None = None) -> str | None:
    """Find the file for a bare program name on a search path, by default the environment's."""
    for folder in os.get_exec_path() if path is None else path.split(os.pathsep):
        file = Path(folder, program)
        if file.is_file() and os.access(file, os.X_OK):
            return str(file)
    return None


def remove_tree(folder: Path) -> None:
    """Remove a folder of the program's own with everything in it, as far as possible. Links are removed, not
    followed.
    """
    for name, folders, files in os.walk(folder, topdown=False):
        path = Path(name)
        for file in (*files, *(below for below in folders if (path / below).is_symlink())):
            with suppress(OSError):
                (path / file).unlink()
        with suppress(OSError):
            path.rmdir()
