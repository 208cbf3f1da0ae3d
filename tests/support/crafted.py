"""Archives that no honest engine would create: written by the engine itself, with items assembled by a test.

The engine's own program backs up a folder with one file. For each crafted item, a copy of that file's entry is added
with the test's changes. In every other respect it is a real repository, of major 1 or 2.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.engines import ROOT

SCRIPT = """
import json, stat, sys
import borg.archive
from borg.archiver import Archiver

request = json.load(sys.stdin)
honest = borg.archive.ChunkBuffer.add
crafted = []


def like(template, value):
    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    return raw if isinstance(template, bytes) or not isinstance(value, str) else value


def add(self, item):
    honest(self, item)
    if crafted or not stat.S_ISREG(item.mode):
        return
    template = item.as_dict()
    for changes in request["items"]:
        entry = {**template, **{name: like(template["path"], value) for name, value in changes.items()}}
        entry = {name: value for name, value in entry.items() if value is not None}
        if "hlid" in entry:
            entry["hlid"] = bytes.fromhex(changes["hlid"])
        crafted.append(entry)
        self.buffer.write(self.packer.pack(entry))


borg.archive.ChunkBuffer.add = add
archiver = Archiver()
code = archiver.run(archiver.parse_args(request["arguments"]))
assert code == 0, code
assert len(crafted) == len(request["items"])
"""


def hard_link(path: str, source: str) -> dict[str, Any]:
    """An item of engine 1 that claims to be another name of a file."""
    return {"path": path, "source": source, "chunks": None, "size": None, "hardlink_master": None}


def symbolic_link(path: str, target: str, *, major: int = 1) -> dict[str, Any]:
    word = "source" if major == 1 else "target"
    return {"path": path, "mode": 0o120777, word: target, "chunks": None, "size": None, "hardlink_master": None}


def craft(
    repository: Path, archive: str, source: Path, items: Sequence[Mapping[str, Any]], environment: Mapping[str, str]
) -> None:
    """Add an archive to a repository of engine 1, with the folder `source`, which contains one file, and the crafted
    items.
    """
    _run(
        "1.4",
        ["create", "--files-cache=disabled", "--", f"{repository}::{archive}", *_names(source)],
        source,
        items,
        environment,
    )


def craft_2(
    repository: Path, archive: str, source: Path, items: Sequence[Mapping[str, Any]], environment: Mapping[str, str]
) -> None:
    """The same for engine 2."""
    _run("2.0", ["-r", str(repository), "create", "--", archive, *_names(source)], source, items, environment)


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def _run(
    series: str, arguments: list[str], source: Path, items: Sequence[Mapping[str, Any]], environment: Mapping[str, str]
) -> None:
    request = json.dumps({"arguments": arguments, "items": list(items)})
    ran = subprocess.run(
        [ROOT / ".engines" / f"borg-{series}" / "bin" / "python", "-c", SCRIPT],
        input=request,
        cwd=source,
        env={"BORG_SELFTEST": "disabled", "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
