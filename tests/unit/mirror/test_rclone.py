"""The program rclone: found or missing, run directly or passed on as a command."""

from pathlib import Path

import pytest

from holdfast.access.vault import Vault
from holdfast.errors import Unprocessable
from holdfast.mirror.models import RcloneRemote
from holdfast.mirror.probe import Probe
from holdfast.mirror.rclone import Access, Rclone, place
from holdfast.mirror.remotes import Remotes
from holdfast.settings import Settings

NOWHERE = Access("local", {}, {})


@pytest.fixture
def missing(tmp_path: Path) -> Rclone:
    return Rclone(Settings(data_dir=tmp_path, database_url=None, rclone=str(tmp_path / "no-rclone")))


def test_a_missing_rclone_is_reported_with_a_remedy_wherever_it_is_needed(missing: Rclone) -> None:
    for use in (missing.path, missing.providers, lambda: missing.obscure("x"), lambda: missing.command((), NOWHERE)):
        with pytest.raises(Unprocessable) as refused:
            use()
        assert refused.value.key == "rclone.not_installed"
        assert "HOLDFAST_RCLONE" in refused.value.message


def test_the_test_of_a_remote_fails_at_its_first_step_if_rclone_is_missing(missing: Rclone, tmp_path: Path) -> None:
    remotes = Remotes(missing, Vault(Settings(data_dir=tmp_path, database_url=None)))
    remote = RcloneRemote(uuid="0", name="nas", provider="local", options={})

    verdict = Probe(remotes).run(remote, "/srv")

    assert (verdict.ok, verdict.steps[0].verdict, verdict.steps[0].key) == (False, "failed", "rclone.not_installed")
    assert {step.verdict for step in verdict.steps[1:]} == {"skipped"}


def test_a_program_that_is_not_rclone_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "rclone"
    other.write_text("#!/bin/sh\necho no JSON at all\n")
    other.chmod(0o755)

    with pytest.raises(Unprocessable) as refused:
        Rclone(Settings(data_dir=tmp_path, database_url=None, rclone=str(other))).providers()

    assert refused.value.key == "rclone.failed"


def test_the_services_own_environment_does_not_reach_rclone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RCLONE_CONFIG_MIRROR_TYPE", "s3")
    monkeypatch.setenv("HOLDFAST_SECRET_KEY", "a secret")
    rclone = Rclone(Settings(data_dir=tmp_path, database_url=None, secret_key=None))

    environment = rclone.command(("lsf",), NOWHERE).environment

    assert environment["RCLONE_CONFIG_MIRROR_TYPE"] == "local"
    assert environment["RCLONE_CONFIG"] == ""
    assert not any(name.startswith("HOLDFAST") for name in environment)


def test_paths_on_a_remote_are_joined_without_empty_parts() -> None:
    assert [place(""), place("a/b"), place("", "x"), place("a", "x")] == [
        *("mirror:", "mirror:a/b", "mirror:x", "mirror:a/x")
    ]
