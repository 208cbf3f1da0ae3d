"""The engine programs that the tests run against: one of each supported series.

`ENGINES` maps a series of major 1 ("1.2", "1.4") to its program, `ENGINE_2` is the pinned beta of major 2. `make setup`
provides them; where one is missing its tests are not collected, except in CI, where a missing engine is an error.
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
    """Return the program of each series that this machine has. Raise EngineMissing in CI unless all are there."""
    found = {series: program for series in SERIES if (program := find_engine(series)) is not None}
    missing = [series for series in SERIES if series not in found]
    if missing and os.environ.get("CI") == "true":
        raise EngineMissing(f"no BorgBackup of series {', '.join(missing)}: `tools/setup.sh test` installs it")
    return found


def find_engine(series: str) -> Path | None:
    """Return the program that the set-up built for the series, else the system's if it is of that series."""
    built = ROOT / ".engines" / f"borg-{series}" / "bin" / "borg"
    if built.exists():
        return built
    system = shutil.which("borg")
    if system is not None and series_of(Path(system)) == series:
        return Path(system)
    return None


def series_of(program: Path) -> str | None:
    """Return "1.2" of "borg 1.2.4"; None when the program does not say."""
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"borg(?:\.exe)? (\d+\.\d+)\.", answer)
    return match[1] if match else None


def find_engine_2() -> Path | None:
    """Return the program that the set-up built of major 2. Raise EngineMissing in CI without it."""
    built = ROOT / ".engines" / "borg-2.0" / "bin" / "borg"
    if built.exists():
        return built
    if os.environ.get("CI") == "true":
        raise EngineMissing("no BorgBackup of series 2.0: `tools/setup.sh test` installs it")
    return None


ENGINES = find_engines()
ENGINE_2 = find_engine_2()
