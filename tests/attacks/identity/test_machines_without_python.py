"""On an ssh machine without Python a few lines of shell take the guard's place; what they cannot do is refused
by name.
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


def test_another_repository_is_refused_there_too(tmp_path: Path, machine: Machine) -> None:
    assert engine_run(tmp_path, machine, found=OTHER) == ("failed", "repository.replaced", False)


def test_the_right_one_is_opened(tmp_path: Path, machine: Machine) -> None:
    status, key, ran = engine_run(tmp_path, machine, found=OWN)
    assert (status, key, ran) in (("completed", None, True), ("completed_with_warnings", None, True))


def test_a_dry_run_of_an_older_state_names_what_is_missing(tmp_path: Path, machine: Machine) -> None:
    assert engine_run(tmp_path, machine, found=OWN, older="look") == ("failed", "ssh.python_missing", False)
