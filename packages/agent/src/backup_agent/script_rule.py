"""Decide which scripts of the service this machine runs. The agent decides, as the service may be compromised.

`accept` in `[scripts]` of `config.toml` is `none` (the default), `installed` (only files in the `scripts` folder next
to it, by name and without arguments from the service) or `any`.
"""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

from backup_engine.frozen import frozen
from backup_protocol import ScriptBlock

REFUSED = "scripts.agent_refuses"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
VARIABLE = re.compile(r"HOLDFAST_[A-Z0-9_]+")
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Refused(Exception):
    """This machine does not run the script. The message explains why, and what its owner can do."""


@frozen
class ScriptRule:
    accept: str = "none"
    folder: Path = Path("/nonexistent")

    def require(self, block: ScriptBlock) -> Path | None:
        """The installed file to run, or None to run the content of the job's script. Raise Refused."""
        if self.accept == "none":
            raise Refused(
                "This machine does not run scripts from the service. Its owner can set accept in [scripts] of "
                "config.toml to "
                '"installed" or "any".'
            )
        for name in block.variables:
            if not VARIABLE.fullmatch(name):
                raise Refused(f"Scripts are not allowed to receive the variable {name!a} on this machine.")
        if block.installed_as is not None:
            return self._installed(block.installed_as)
        if self.accept != "any":
            raise Refused("This machine runs only scripts that are installed on it, and this one is not.")
        return None

    def _installed(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise Refused("The name of the installed script must be a plain file name.")
        file = self.folder / name
        try:
            _require_owned(self.folder, stat.S_ISDIR)
            _require_owned(file, stat.S_ISREG)
        except OSError as error:
            raise Refused(f"The script {file} cannot be used: {error.strerror}.") from error
        if not os.access(file, os.X_OK):
            raise Refused(f"The script {file} is not executable.")
        return file


def _require_owned(path: Path, is_kind: Callable[[int], bool]) -> None:
    """Raise Refused unless the path is of this kind, belongs to root or this user, and is not writable by others."""
    found = path.lstat()
    if not is_kind(found.st_mode):
        raise Refused(f"{path} is not a plain file or folder.")
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & OTHERS_WRITE:
        raise Refused(f"{path} must be owned by root or the agent's user and not be writable by others.")
