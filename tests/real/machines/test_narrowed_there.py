"""An engine on another machine unpacks only the metadata of the requested paths."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from backup_engine.chunks.commands import narrowed
from backup_engine.command import Command, Machine
from backup_engine.process import Spool
from tests.real.machines.test_far_runs import ended
from tests.support.counting_engine import counting_engine
from tests.support.engines import ENGINES

FILES = 20


@pytest.mark.parametrize("python", [sys.executable, None])
def test_a_command_for_one_path_reads_only_that_path(far: Machine, tmp_path: Path, python: str | None) -> None:
    program, repository = counting_engine(tmp_path, ENGINES["1.4"]), tmp_path / "repository"
    environment = {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": str(tmp_path),
        "BORG_BASE_DIR": str(tmp_path / "base"),
        "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
    }
    (tmp_path / "tree").mkdir()
    for number in range(FILES):
        (tmp_path / "tree" / f"file-{number}").touch()
    place = f"{repository}::made"
    for words in (("init", "-e", "none", str(repository)), ("create", place, "tree")):
        subprocess.run((ENGINES["1.4"], *words), env=environment, cwd=tmp_path, check=True, timeout=120)
    list_one = Command(
        (str(program), "list", "--short", place, "pp:tree/file-7"), environment, machine=replace(far, python=python)
    )

    spool = Spool(tmp_path / "spool")
    spool.launch(narrowed(list_one, ("tree/file-7",)))

    assert ended(spool).code == 0
    assert spool.out.read_text() == "tree/file-7\n"
    assert spool.err.read_text().endswith(f"looked at {1 if python else FILES + 1}\n")


def test_an_engine_without_python_on_the_machine_runs_unchanged(far: Machine, tmp_path: Path) -> None:
    program = shutil.which("echo")
    assert program is not None
    spool = Spool(tmp_path / "spool")
    spool.launch(narrowed(Command((program, "as it is"), {"PATH": "/usr/bin:/bin"}, machine=far), ("a path",)))

    assert ended(spool).code == 0
    assert spool.out.read_text() == "as it is\n"
