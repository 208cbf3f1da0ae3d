"""The set-up on machines where it cannot do its work: its one-sentence errors, and the commands that it runs."""

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.programs import all_programs_but, replace_program
from tests.support.service import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
BUILD_PACKAGES = {"libacl1-dev", "libxxhash-dev"}


@dataclass(frozen=True)
class Machine:
    """A copy of the files that the set-up reads, on a machine whose programs the test chooses. It has no engine."""

    folder: Path
    programs: Path

    @property
    def calls(self) -> list[str]:
        """The calls of apt-get."""
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def set_up(self, mode: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self.folder / "tools" / "setup.sh", mode],
            env={**os.environ, "PATH": str(self.programs), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    folder = tmp_path / "holdfast"
    shutil.copytree(ROOT / "tools", folder / "tools")
    for lock in ROOT.glob("requirements*.lock"):
        shutil.copy(lock, folder)
    for member in [*ROOT.glob("packages/*/pyproject.toml"), ROOT / "server" / "pyproject.toml"]:
        (folder / member.relative_to(ROOT)).parent.mkdir(parents=True)
        shutil.copy(member, folder / member.relative_to(ROOT))
    machine = Machine(folder, all_programs_but(tmp_path / "programs", "borg", "pkg-config", "pkgconf"))
    apt(machine, "exit 0")
    replace_program(machine.programs, "sudo", 'while [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"')
    return machine


def apt(machine: Machine, script: str) -> None:
    replace_program(machine.programs, "apt-get", f'echo "$*" >> "{machine.folder}/calls"\n{script}')


def only_sentence(result: "subprocess.CompletedProcess[str]") -> str:
    assert result.returncode == 1, result.stdout
    (sentence,) = result.stderr.splitlines()
    assert sentence.startswith("setup: ")
    return sentence


def test_without_root_rights_the_set_up_prints_the_command_to_run_as_root(machine: Machine) -> None:
    replace_program(machine.programs, "id", "echo 1000")
    replace_program(machine.programs, "sudo", "exit 1")

    sentence = only_sentence(machine.set_up("run"))

    assert "may not install them" in sentence
    assert "'apt-get update && apt-get install -y --no-install-recommends borgbackup' as root" in sentence
    assert machine.calls == []
    assert not (machine.folder / ".venv").exists()


def test_an_unreachable_package_server_is_reported(machine: Machine) -> None:
    apt(machine, "echo \"Temporary failure resolving 'deb.debian.org'\"; exit 100")

    assert "the package server cannot be reached" in only_sentence(machine.set_up("run"))


def test_an_unreachable_package_index_is_reported(machine: Machine) -> None:
    replace_program(machine.programs, "borg", "echo borg 1.4.5")
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:1/simple", "PIP_RETRIES": "0", "PIP_FIND_LINKS": ""}

    result = machine.set_up("run", **nowhere, PIP_NO_CACHE_DIR="1")

    assert "the package index cannot be reached" in only_sentence(result)


def test_missing_packages_are_named_together_and_those_needed_for_builds_are_installed_first(machine: Machine) -> None:
    (machine.programs / "jq").unlink()
    apt(machine, "exit 1")

    result = machine.set_up("test")

    assert "apt-get could not install" in only_sentence(result)
    (named,) = [line for line in result.stdout.splitlines() if "installing" in line]
    assert {"borgbackup", "pkg-config", "jq", *BUILD_PACKAGES} <= set(named.split())
    update, install = machine.calls
    assert update.split()[-1] == "update"
    assert {"borgbackup", "pkg-config", *BUILD_PACKAGES} <= set(install.split())
    assert "jq" not in install.split()


def test_a_package_that_fails_to_install_during_the_builds_is_named(machine: Machine) -> None:
    (machine.programs / "jq").unlink()
    replace_program(machine.programs, "pkg-config", "exit 0")
    replace_program(machine.programs, "borg", "echo borg 1.4.5")
    apt(machine, 'case "$*" in *jq*) exit 1;; esac')
    (machine.folder / ".boot").mkdir()
    (machine.folder / ".boot" / "venv").symlink_to(ROOT / ".boot" / "venv")
    nowhere = {
        "UV_DEFAULT_INDEX": "http://127.0.0.1:1/simple",
        "UV_HTTP_RETRIES": "0",
        "UV_CACHE_DIR": str(machine.folder / "cache"),
    }

    sentence = only_sentence(machine.set_up("test", **nowhere))

    assert "apt-get could not install jq" in sentence


def test_the_set_up_waits_for_another_running_apt_get(machine: Machine) -> None:
    script = (
        'case "$*" in *update) [ -e "$0.tried" ] || { touch "$0.tried"; echo "E: Could not get lock /x"; exit '
        "100; };; *) exit 1;; esac"
    )
    apt(machine, script)

    result = machine.set_up("run")

    assert "waiting for another apt-get" in result.stdout
    assert "apt-get could not install" in only_sentence(result)
    assert [call.split()[-1] for call in machine.calls] == ["update", "update", "borgbackup"]


def test_without_home_in_the_environment_the_set_up_uses_the_users_home(machine: Machine) -> None:
    apt(machine, 'echo "$HOME" > "$0.home"; exit 1')

    machine.set_up("run", HOME="")

    assert Path(f"{machine.programs}/apt-get.home").read_text().strip() == pwd.getpwuid(os.getuid()).pw_dir


def test_each_line_of_the_set_up_shows_the_elapsed_seconds(machine: Machine) -> None:
    apt(machine, "exit 1")

    lines = machine.set_up("run").stdout.splitlines()

    assert lines
    assert all(line.startswith("setup: [") and " s] " in line for line in lines)
