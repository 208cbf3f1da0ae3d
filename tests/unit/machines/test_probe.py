"""What the probe of a machine reports."""

import subprocess
from pathlib import Path

import pytest

from holdfast.execution.ssh import Answer
from holdfast.machines import probe


def probed(engine: str, path: str) -> probe.Probe:
    """The result of the script when this machine's own shell runs it."""
    done = subprocess.run(
        ["/bin/sh", "-s"], input=probe.script(engine, path), capture_output=True, text=True, check=False
    )
    return probe.read(Answer(done.returncode, done.stdout, done.stderr))


def program(folder: Path, says: str) -> str:
    file = folder / "borg"
    file.write_text(f"#!/bin/sh\necho '{says}'\n")
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize(
    ("says", "version"), [("borg 1.4.0", "1.4.0"), ("borg2 2.0.0b23", "2.0.0b23"), ("something else", None)]
)
def test_the_version_of_the_engine_is_read(tmp_path: Path, says: str, version: str | None) -> None:
    found = probed(program(tmp_path, says), "/")

    assert (found.engine.path, found.engine.version) == (str(tmp_path / "borg"), version)


def test_a_machine_without_an_engine_still_reports_the_rest(tmp_path: Path) -> None:
    found = probed(str(tmp_path / "borg"), "/")

    assert found.took_commands
    assert (found.engine.path, found.has_python) == (None, True)
    assert found.free_bytes is not None
    assert found.total_bytes is not None
    assert 0 <= found.free_bytes <= found.total_bytes


@pytest.mark.parametrize("path", ["/not/there/yet", ".", "not there", "/etc/hostname", "/'; echo engine=/evil; '"])
def test_a_path_that_does_not_exist_yet_has_the_space_of_its_parent(path: str) -> None:
    found = probed("/nowhere/borg", path)

    assert found.free_bytes is not None
    assert found.engine.path is None


@pytest.mark.parametrize(
    ("version", "is_enough"), [("3.9.0", True), ("3.13.1", True), ("3.8.18", False), ("2.7.18", False), (None, False)]
)
def test_the_shim_needs_python_3_9_or_newer(version: str | None, is_enough: bool) -> None:
    assert probe.Probe(True, python=probe.Program("/usr/bin/python3", version)).has_python is is_enough


def test_an_account_with_an_unexpected_response_accepts_no_commands() -> None:
    assert probe.read(Answer(0, "This account is for backups only.\n", "")).took_commands is False
