"""The keys in a machine's authorized_keys, changed by the scripts of a rotation that run here in place of a machine."""

import resource
import stat
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.execution.ssh import Answer
from holdfast.machines import deploy

OLD, NEW, OTHER = "ssh-ed25519 AAAAold holdfast", "ssh-ed25519 AAAAnew holdfast", "ssh-rsa AAAA somebody"

Rotate = Callable[..., str | None]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".ssh").mkdir()
    return tmp_path


@pytest.fixture
def rotate(home: Path, monkeypatch: pytest.MonkeyPatch) -> Rotate:
    """Replaces the old key with the new one, and returns the reason for a failure.

    The disk may be full for the last script: no file can get any content.
    """
    old, new = SimpleNamespace(public_key=OLD, id=1), SimpleNamespace(public_key=NEW, id=2)
    links: Any = SimpleNamespace(
        key_of=lambda _: old, link_of=lambda *_, **__: SimpleNamespace(key_file=home / "trial")
    )
    deployment = deploy.KeyDeployment(SimpleNamespace(), links)  # type: ignore[arg-type]
    monkeypatch.setattr(deployment, "_accepted", lambda *_: SimpleNamespace())

    def rotated(*, full: bool = False) -> str | None:
        limits = iter((resource.RLIM_INFINITY, 0 if full else resource.RLIM_INFINITY))
        monkeypatch.setattr(deploy.ssh, "run_script", lambda _, script: run_script(home, script, next(limits)))
        connection: Any = SimpleNamespace(id=1, host_key="x")
        return deployment._move(SimpleNamespace(), connection, new)  # type: ignore[arg-type]

    return rotated


def run_script(home: Path, script: str, largest_file: int) -> Answer:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input=script.encode(),
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        capture_output=True,
        check=False,
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (largest_file, hard)),
        restore_signals=False,  # without the signal at the limit, a write fails as on a full disk
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_rotation_replaces_the_key_and_keeps_everything_else(home: Path, rotate: Rotate) -> None:
    file = home / ".ssh/authorized_keys"
    file.write_bytes(f"{OTHER} Ren\xe9\n# \0\n{OLD}\n".encode("latin-1"))
    file.chmod(0o640)

    assert rotate() is None
    assert file.read_bytes().decode("latin-1").splitlines() == [f"{OTHER} Ren\xe9", "# \0", NEW]
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert list(file.parent.iterdir()) == [file]


def test_a_link_is_kept_and_its_target_is_changed(home: Path, rotate: Rotate) -> None:
    (home / "keys").write_text(f"{OLD}\n")
    file = home / ".ssh/authorized_keys"
    file.symlink_to("../keys")

    assert rotate() is None
    assert file.is_symlink()
    assert (home / "keys").read_text() == f"{NEW}\n"


def test_an_old_key_that_cannot_be_removed_from_a_full_disk_is_reported(home: Path, rotate: Rotate) -> None:
    file = home / ".ssh/authorized_keys"
    file.write_text(f"{OTHER}\n{OLD}\n")

    assert rotate(full=True) == "ssh.deploy_failed"
    assert file.read_text() == f"{OTHER}\n{OLD}\n{NEW}\n"
    assert list(file.parent.iterdir()) == [file]


def test_an_old_key_whose_line_was_changed_by_hand_is_reported(home: Path, rotate: Rotate) -> None:
    file = home / ".ssh/authorized_keys"
    file.write_text(f"restrict {OLD}\n")

    assert rotate() == "ssh.deploy_failed"
    assert file.read_text() == f"restrict {OLD}\n{NEW}\n"
