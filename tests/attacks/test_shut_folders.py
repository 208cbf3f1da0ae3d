"""Folders without any permissions, in archives and at destinations, for a program that file permissions apply to.

They usually do not apply to root; the tests drop those capabilities, so that the restore runs like any other user's.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.places.test_agents import archive_of, program_of
from tests.support.peak import ROOT

SETPRIV = shutil.which("setpriv")
WITHOUT = "-dac_override,-dac_read_search"
RESTORE = """
import json, sys
from pathlib import Path
from tests.support.agent_job import run_restore
folder, repository, destination, program, major = map(Path, sys.argv[1:])
ended = run_restore(folder, repository, "archive", destination, program=program, major=int(str(major)))
facts = {"details": getattr(ended, "details", None), "warnings": [*getattr(ended, "warnings", ())]}
print(json.dumps({"end": type(ended).__name__, "key": getattr(ended, "error_key", None), **facts}, default=str))
"""

pytestmark = pytest.mark.skipif(os.geteuid() == 0 and SETPRIV is None, reason="setpriv is not installed")


def restored(folder: Path, repository: Path, destination: Path, major: int) -> dict[str, Any]:
    arguments = [str(folder), str(repository), str(destination), str(program_of(major)), str(major)]
    command = [sys.executable, "-c", RESTORE, *arguments]
    if os.geteuid() == 0:
        command = [str(SETPRIV), f"--inh-caps={WITHOUT}", f"--bounding-set={WITHOUT}", *command]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.parametrize("major", [1, 2])
def test_a_folder_without_permissions_in_an_archive_is_restored_unchanged(tmp_path: Path, major: int) -> None:
    (tmp_path / "source" / "tree" / "shut").mkdir(parents=True)
    (tmp_path / "source" / "tree" / "shut" / "within").write_text("of the archive")
    (tmp_path / "source" / "tree" / "shut").chmod(0)
    repository = archive_of(tmp_path, major, "tree/open")
    destination = tmp_path / "destination"
    destination.mkdir()

    ended = restored(tmp_path, repository, destination, major)

    assert ended["end"] == "Completed"
    assert (destination / "tree" / "shut" / "within").read_text() == "of the archive"
    assert (destination / "tree" / "shut").stat().st_mode & 0o777 == 0


@pytest.mark.parametrize("major", [1, 2])
def test_a_folder_without_permissions_at_the_destination_is_named_and_left_unchanged(
    tmp_path: Path, major: int
) -> None:
    repository = archive_of(tmp_path, major, "tree/shut/within", "tree/open")
    destination = tmp_path / "destination"
    (destination / "tree" / "shut").mkdir(parents=True)
    (destination / "tree" / "shut" / "within").write_text("what was there")
    (destination / "tree" / "shut").chmod(0)

    ended = restored(tmp_path, repository, destination, major)

    assert ended["details"]["files_failed"] == 1, ended
    assert ended["key"] == "restore.incomplete"
    assert '"tree/shut' in json.dumps(ended["details"])
    assert (destination / "tree" / "shut" / "within").read_text() == "what was there"
    assert (destination / "tree" / "shut").stat().st_mode & 0o777 == 0
    assert (destination / "tree" / "open").read_text() == "forged"
