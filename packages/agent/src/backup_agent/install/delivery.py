"""Files that the service serves for installing the agent: the install script and wheels of the agent's packages.

The wheels are built in memory from the packages installed with the service, so that a machine always gets the agent
that matches its service. A wheel is a zip file with a few additional text files; no build tool is needed.
"""

import base64
import hashlib
import io
import zipfile
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from backup_agent import AGENT_VERSION
from backup_engine.frozen import frozen

PACKAGES = ("backup_agent", "backup_engine", "backup_jobs", "backup_protocol")
SCRIPTS = {"backup_agent": "[console_scripts]\nbackup-agent = backup_agent.cli:main\n"}
OLDEST_PYTHON = "3.11"
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Earliest timestamp of a zip file; a fixed one makes wheels of the same sources identical."""
SUFFIXES = (".py", ".typed", ".sh")


@frozen
class Wheel:
    name: str
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def install_script() -> bytes:
    """The shell script that installs the agent on a machine."""
    return (resources.files("backup_agent") / "install" / "install.sh").read_bytes()


@cache
def wheels() -> tuple[Wheel, ...]:
    return tuple(_wheel(package) for package in PACKAGES)


def wheel_files() -> dict[str, bytes]:
    """The content of each wheel by its file name."""
    return {wheel.name: wheel.content for wheel in wheels()}


def wheel_index() -> bytes:
    """One line per wheel, in the format of `sha256sum`."""
    return "".join(f"{wheel.sha256}  {wheel.name}\n" for wheel in wheels()).encode()


def _wheel(package: str) -> Wheel:
    files = _sources(resources.files(package), package)
    information = f"{package}-{AGENT_VERSION}.dist-info"
    files[f"{information}/METADATA"] = _metadata(package)
    files[f"{information}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: holdfast\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    if package in SCRIPTS:
        files[f"{information}/entry_points.txt"] = SCRIPTS[package].encode()
    files[f"{information}/RECORD"] = _record(files, f"{information}/RECORD")
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return Wheel(f"{package}-{AGENT_VERSION}-py3-none-any.whl", stream.getvalue())


def _sources(folder: Traversable, path: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in folder.iterdir():
        place = f"{path}/{entry.name}"
        if entry.is_dir() and entry.name != "__pycache__":
            found |= _sources(entry, place)
        elif entry.is_file() and entry.name.endswith(SUFFIXES):
            found[place] = entry.read_bytes()
    return found


def _metadata(package: str) -> bytes:
    needs = "".join(
        f"Requires-Dist: {name.replace('_', '-')}\n"
        for name in PACKAGES
        if package == "backup_agent" and name != package
    )
    return (
        f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: {AGENT_VERSION}\n"
        f"Requires-Python: >={OLDEST_PYTHON}\n{needs}"
    ).encode()


def _record(files: dict[str, bytes], own_name: str) -> bytes:
    lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in sorted(files.items())]
    return "\n".join([*lines, f"{own_name},,", ""]).encode()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
