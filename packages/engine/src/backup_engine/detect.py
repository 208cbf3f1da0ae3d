"""Find the engine programs on this machine."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from backup_engine.frozen import frozen

VERSION = re.compile(r"^borg\S* (?P<version>(?P<release>\d{1,6}(?:\.\d{1,6})+)\S*)\s*$", re.MULTILINE)
SECONDS_TO_ANSWER = 30
OLDEST_SUPPORTED = (1, 2)
SUPPORTED_MAJORS = (1, 2)
USUAL_NAMES: Mapping[int, tuple[str, ...]] = {1: ("borg", "borg1"), 2: ("borg2", "borg")}


class EngineNotInstalled(Exception):
    """There is no usable program at this path."""

    key = "engine.not_installed"


class EngineUnsupported(Exception):
    """The program, or this version of it, does not support the request."""

    key = "engine.unsupported"


@frozen
class EngineProgram:
    path: str
    version: str
    version_tuple: tuple[int, ...]
    major: int


def detect(path: str, home: str) -> EngineProgram:
    """Run a program once to find out which engine it is.

    `home` must be a folder that this user may write to: engine 2 creates folders there before it prints its version.
    Raise EngineNotInstalled if the program cannot be run, EngineUnsupported if it is not an engine, or is older than
    1.2.
    """
    return _identify(path, _version_text(path, home))


def identified(path: str, version: str) -> EngineProgram:
    """The program reported by another machine. Raise EngineUnsupported if it cannot be used."""
    return _identify(path, f"borg {version}")


def program_in_path(name: str) -> str | None:
    """Like ``shutil.which``, whose module imports every compression module: half a megabyte in an idle agent."""
    folders = [""] if os.sep in name else os.environ.get("PATH", os.defpath).split(os.pathsep)
    candidates = (Path(folder, name) for folder in folders)
    return next((str(path) for path in candidates if path.is_file() and os.access(path, os.X_OK)), None)


def _version_text(path: str, home: str) -> str:
    try:
        answer = subprocess.run(
            (path, "--version"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS_TO_ANSWER,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": home},
            check=False,
        )
    except FileNotFoundError as error:
        raise EngineNotInstalled(f"No engine program at {path}; install BorgBackup or correct the path.") from error
    except (OSError, ValueError) as error:
        raise EngineNotInstalled(f"The engine program {path} cannot be run: {error}.") from error
    except subprocess.TimeoutExpired as error:
        raise EngineUnsupported(f"{path} did not report its version within {SECONDS_TO_ANSWER} seconds.") from error
    return (answer.stdout + b"\n" + answer.stderr).decode("utf-8", "replace")


def _identify(path: str, text: str) -> EngineProgram:
    match = VERSION.search(text)
    if match is None:
        raise EngineUnsupported(f"{Path(path).name} is not a BorgBackup program: it did not report a version.")
    version_tuple = tuple(int(part) for part in match["release"].split("."))
    major = version_tuple[0]
    if version_tuple < OLDEST_SUPPORTED or major not in SUPPORTED_MAJORS:
        raise EngineUnsupported(f"BorgBackup {match['version']} is not supported; install 1.2 or newer, best 1.4.")
    return EngineProgram(path, match["version"], version_tuple, major)
