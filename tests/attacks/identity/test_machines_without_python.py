"""On an ssh machine without Python a few lines of shell replace the guard; whatever needs Python is refused with an
error that names it.
"""

import os
from pathlib import Path

import pytest

from backup_engine.command import Command, Machine, Older, RepositoryGuard
from backup_engine.process import Spool
from tests.attacks.test_bombs_in_engine_results import outcome_of

OWN, OTHER = "1" * 64, "2" * 64


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine("there", ("/usr/bin/env", f"HOME={tmp_path}", "/bin/sh", "-c"), python=None)


def engine_run(
    tmp_path: Path, machine: Machine, *, found: str, older: Older = "refuse"
) -> tuple[str, str | None, bool]:
    """How a run ended, and whether the engine was started."""
    repository, ran = tmp_path / "repository", tmp_path / "ran"
    repository.mkdir()
    (repository / "config").write_text(f"[repository]\nversion = 1\nid = {found}\n")
    guard = RepositoryGuard(1, OWN, str(repository), "/bin/borg", (), older=older)
    command = Command(("/usr/bin/touch", str(ran)), {"PATH": os.defpath}, machine=machine, guard=guard)
    ended = outcome_of(Spool(tmp_path / "run"), command)
    return ended.status, ended.error_key, ran.exists()


def test_another_repository_is_refused_without_python(tmp_path: Path, machine: Machine) -> None:
    assert engine_run(tmp_path, machine, found=OTHER) == ("failed", "repository.replaced", False)


def test_the_right_repository_is_opened_without_python(tmp_path: Path, machine: Machine) -> None:
    status, key, ran = engine_run(tmp_path, machine, found=OWN)
    assert (status, key, ran) in (("completed", None, True), ("completed_with_warnings", None, True))


def test_a_dry_run_on_an_older_copy_fails_because_python_is_missing(tmp_path: Path, machine: Machine) -> None:
    assert engine_run(tmp_path, machine, found=OWN, older="look") == ("failed", "ssh.python_missing", False)
