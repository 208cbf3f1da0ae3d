"""Detecting whether a program is an engine, and which version."""

from pathlib import Path

import pytest

from backup_engine.detect import EngineNotInstalled, EngineProgram, EngineUnsupported, detect
from backup_engine.features import SINCE, features


def program(folder: Path, says: str, name: str = "borg") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("says", "version", "version_tuple", "major"),
    [
        ("echo borg 1.2.4", "1.2.4", (1, 2, 4), 1),
        ("echo borg 1.4.5", "1.4.5", (1, 4, 5), 1),
        ("echo borg 1.4.0rc1", "1.4.0rc1", (1, 4, 0), 1),
        ("echo borg 2.0.0b23", "2.0.0b23", (2, 0, 0), 2),
        ("echo some warning; echo borg.exe 1.4.5", "1.4.5", (1, 4, 5), 1),
        ("echo borg 1.2.8 >&2", "1.2.8", (1, 2, 8), 1),
    ],
)
def test_a_program_is_identified_by_its_version_output(
    tmp_path: Path, says: str, version: str, version_tuple: tuple[int, ...], major: int
) -> None:
    path = program(tmp_path, says)

    assert detect(path, str(tmp_path)) == EngineProgram(path, version, version_tuple, major)


@pytest.mark.parametrize(
    "says", ["echo borg 1.1.18", "echo borg 0.30", "echo borg 3.0.0", "echo hello", "exit 1", "echo borg"]
)
def test_a_program_that_is_too_old_or_not_an_engine_is_unsupported(tmp_path: Path, says: str) -> None:
    with pytest.raises(EngineUnsupported):
        detect(program(tmp_path, says), str(tmp_path))


def test_a_missing_program_is_not_installed(tmp_path: Path) -> None:
    with pytest.raises(EngineNotInstalled, match="No engine program"):
        detect(str(tmp_path / "borg"), str(tmp_path))


def test_a_file_that_cannot_be_run_is_not_installed(tmp_path: Path) -> None:
    path = tmp_path / "borg"
    path.write_bytes(b"\x7fELF")
    path.chmod(0o755)

    with pytest.raises(EngineNotInstalled, match="cannot be run"):
        detect(str(path), str(tmp_path))


def test_a_program_that_first_writes_to_its_home_is_detected(tmp_path: Path) -> None:
    path = program(tmp_path, 'mkdir "$HOME/.config" && echo borg 2.0.0b23')

    assert detect(path, str(tmp_path)).major == 2


@pytest.mark.parametrize(
    ("version", "able"),
    [
        ((1, 2, 4), set()),
        ((1, 4, 0), {"modern_exit_codes", "warning_message_ids", "archive_authentication_key", "files_changed_option"}),
        ((1, 4, 5), set(SINCE)),
    ],
)
def test_a_version_has_the_features_listed_in_the_table(version: tuple[int, ...], able: set[str]) -> None:
    known = features(EngineProgram("borg", "", version, 1))

    assert {name for name in SINCE if getattr(known, name)} == able
