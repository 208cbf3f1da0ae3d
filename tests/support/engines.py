"""The engine programs that the tests run against: one of each supported series.

`ENGINES` maps a series of major 1 ("1.2", "1.4") to its program; `ENGINE_2` is the pinned beta of major 2. `make setup`
installs them. If one is missing, its tests are not collected; in CI, a missing engine is an error.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERIES = ("1.2", "1.4")


class EngineMissing(Exception):
    pass


def find_engines() -> dict[str, Path]:
    """Return the program of each series on this machine. Raise EngineMissing in CI if one is missing."""
    found = {series: program for series in SERIES if (program := find_engine(series)) is not None}
    missing = [series for series in SERIES if series not in found]
    if missing and os.environ.get("CI") == "true":
        raise EngineMissing(f"no BorgBackup of series {', '.join(missing)}: `tools/setup.sh test` installs it")
    return found


def find_engine(series: str) -> Path | None:
    """Return the program that set-up built for the series, or else the system's if it belongs to that series."""
    built = ROOT / ".engines" / f"borg-{series}" / "bin" / "borg"
    if built.exists():
        return built
    system = shutil.which("borg")
    if system is not None and series_of(Path(system)) == series:
        return Path(system)
    return None


def series_of(program: Path) -> str | None:
    """Return "1.2" for "borg 1.2.4"; None if the program does not report a version."""
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"borg(?:\.exe)? (\d+\.\d+)\.", answer)
    return match[1] if match else None


def find_engine_2() -> Path | None:
    """Return the program of major 2 that set-up built. Raise EngineMissing in CI if it is missing."""
    built = ROOT / ".engines" / "borg-2.0" / "bin" / "borg"
    if built.exists():
        return built
    if os.environ.get("CI") == "true":
        raise EngineMissing("no BorgBackup of series 2.0: `tools/setup.sh test` installs it")
    return None


ENGINES = find_engines()
ENGINE_2 = find_engine_2()
