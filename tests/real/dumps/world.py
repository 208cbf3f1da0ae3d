"""Dumps over HTTP, and what archives contain of them."""

import json
import os
import shutil
import sqlite3
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.engines import ENGINE_2
from tests.support.running import Running
from tests.support.warm_engines import warm_program

PAUSED = """#!/bin/sh
# The real program, whose output stops in the middle while the file `hold` is there.
set -e
here={folder}
full=$(mktemp "$here/full.XXXXXX")
{program} "$@" > "$full"
half=$(($(stat -c %s "$full") / 2))
head -c "$half" "$full"
if [ -e "$here/hold" ]; then
    echo $$ > "$here/reached.part"
    mv "$here/reached.part" "$here/reached"
    while [ -e "$here/hold" ]; do sleep 0.05; done
fi
tail -c "+$((half + 1))" "$full"
"""


@dataclass
class PausedProgram:
    """`sqlite3` with a pause in the middle of its dump."""

    folder: Path

    def install(self) -> None:
        program = shutil.which("sqlite3", path="/usr/local/bin:/usr/bin:/bin")
        self.folder.mkdir()
        script = self.folder / "sqlite3"
        script.write_text(PAUSED.format(folder=self.folder, program=program))
        script.chmod(0o755)

    def hold(self) -> None:
        (self.folder / "reached").unlink(missing_ok=True)
        (self.folder / "hold").touch()

    def release(self) -> None:
        (self.folder / "hold").unlink(missing_ok=True)

    @property
    def pid(self) -> int | None:
        """The process id of the program that waits in the middle of its dump."""
        try:
            return int((self.folder / "reached").read_text())
        except FileNotFoundError:
            return None


def new_sqlite(folder: Path, rows: int = 20_000) -> Path:
    file = folder / "app.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE letters (number INTEGER PRIMARY KEY, words TEXT)")
        connection.executemany(
            "INSERT INTO letters VALUES (?, ?)", ((number, f"it's letter {number} ü") for number in range(rows))
        )
    connection.close()
    return file


def rows_of(file: Path) -> list[Any]:
    connection = sqlite3.connect(file)
    try:
        return connection.execute("SELECT * FROM letters ORDER BY number").fetchall()
    finally:
        connection.close()


def add_database(running: Running, repository: dict[str, Any], **values: Any) -> dict[str, Any]:
    answer = running.admin.post(f"/api/repositories/{repository['id']}/databases", json=values)
    assert answer.status_code == 201, answer.text
    added: dict[str, Any] = answer.json()
    return added


def start_dump(running: Running, repository: dict[str, Any]) -> int:
    answer = running.admin.post(f"/api/repositories/{repository['id']}/dump")
    assert answer.status_code == 200, answer.text
    number: int = answer.json()["job_id"]
    return number


def extracted(running: Running, repository: dict[str, Any]) -> dict[str, Path]:
    """Every archive of the repository, each extracted into a folder."""
    found = {}
    for name in archives(running, repository):
        folder = running.new_folder("extracted")
        if repository["engine_version"] == 2:
            _run(running, folder, "-r", repository["path"], "extract", name)
        else:
            run = [str(warm_program(running.outside.program)), "extract", f"{repository['path']}::{name}"]
            subprocess.run(run, cwd=folder, env=_environment(running), check=True, capture_output=True)
        found[name] = folder
    return found


def archives(running: Running, repository: dict[str, Any]) -> list[str]:
    if repository["engine_version"] == 2:
        listing = json.loads(_run(running, running.folder, "-r", repository["path"], "repo-list", "--json"))
        return [archive["name"] for archive in listing["archives"]]
    return list(running.outside.archives(repository["path"]))


def _run(running: Running, folder: Path, *arguments: str) -> str:
    run = [str(warm_program(ENGINE_2)), *arguments]
    return subprocess.run(run, cwd=folder, env=_environment(running), check=True, capture_output=True, text=True).stdout


def _environment(running: Running) -> dict[str, str]:
    base = str(running.folder / "reader")
    return {
        "PATH": os.environ["PATH"],
        "HOME": base,
        "BORG_BASE_DIR": base,
        "BORG_HOST_ID": "the machine of the tests",
        "LC_ALL": "C.UTF-8",
        "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
        "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
        "LANG": "C.UTF-8",
    }
