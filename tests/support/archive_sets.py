"""Archives with chosen times, created by the real engine without the service's knowledge: many of them in one
process.
"""

import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.engines import ENGINES
from tests.support.running import Running
from tests.support.warm_engines import warm_program

SCRIPT = """
import json, sys
from borg.archiver import Archiver
request = json.load(sys.stdin)
for name, time in request["archives"]:
    archiver = Archiver()
    place = request["repository"] + "::" + name
    arguments = ["create", "--timestamp", time, "--files-cache=disabled", "--", place, request["source"]]
    code = archiver.run(archiver.parse_args(arguments))
    assert code == 0, (name, code)
"""


@dataclass(frozen=True)
class OwnEngine:
    """The engine as the service runs it: its program, base folder and identity."""

    program: Path
    data_dir: Path
    passphrase: str | None = None

    @staticmethod
    def of(running: Running, passphrase: str | None = None) -> "OwnEngine":
        return OwnEngine(warm_program(ENGINES[running.engine]), running.process.data_dir, passphrase)

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "BORG_BASE_DIR": str((self.data_dir / "engine").absolute()),
            "BORG_HOST_ID": (self.data_dir / "install-id").read_text().strip(),
            "BORG_PASSPHRASE": self.passphrase or "none",
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
            "BORG_SELFTEST": "disabled",
        }

    def run(self, *arguments: str, ok: tuple[int, ...] = (0,)) -> str:
        ran = subprocess.run(
            [self.program, "--lock-wait", "60", *arguments],
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode in ok, f"borg {arguments} ended with {ran.returncode}: {ran.stderr}"
        return ran.stdout

    def archives(self, repository: dict[str, Any]) -> dict[str, str]:
        """The names of all archives, each with its id."""
        listed = self.run("list", "--format={archive}{TAB}{id}{NL}", repository["path"])
        return dict(line.split("\t") for line in listed.splitlines())

    def make(self, repository: dict[str, Any], archives: Iterable[tuple[str, datetime]], source: Path) -> None:
        """Create archives of one source, each as if it had been created at its time (UTC)."""
        wanted = [(name, f"{time:%Y-%m-%dT%H:%M:%S}") for name, time in archives]
        request = {"repository": repository["path"], "source": str(source), "archives": wanted}
        interpreter = self.program.read_text(errors="replace").splitlines()[0].removeprefix("#!").split()[0]
        ran = subprocess.run(
            [interpreter, "-c", SCRIPT],
            env=self.environment(),
            input=json.dumps(request),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr

    def remove_all(self, repository: dict[str, Any]) -> None:
        first, *others = self.archives(repository) or [""]
        if first:
            self.run("delete", f"{repository['path']}::{first}", *others)
