"""The environment that an engine gets along with its command line."""

import pytest

from backup_engine.environment import EngineEnvironment, passphrase_secrets
from backup_engine.requests import InvalidRequest, RepositoryLocation

ENVIRONMENT = EngineEnvironment("/var/lib/engine", "1@host")


def test_the_environment_is_complete_and_inherits_nothing_from_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BORG_REPO", "/elsewhere")
    monkeypatch.setenv("BORG_PASSPHRASE", "of somebody else")

    assert ENVIRONMENT.variables(RepositoryLocation("/r")) == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/var/lib/engine",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "BORG_BASE_DIR": "/var/lib/engine",
        "BORG_HOST_ID": "1@host",
        "BORG_EXIT_CODES": "modern",
        "BORG_DISPLAY_PASSPHRASE": "no",
        "BORG_RELOCATED_REPO_ACCESS_IS_OK": "no",
        "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "no",
        "BORG_CHECK_I_KNOW_WHAT_I_AM_DOING": "NO",
        "BORG_DELETE_I_KNOW_WHAT_I_AM_DOING": "NO",
        "BORG_RSH": "ssh -oBatchMode=yes -oServerAliveInterval=10 -oServerAliveCountMax=30",
    }


def test_the_engine_gets_a_yes_for_what_the_user_confirmed() -> None:
    location = RepositoryLocation("/r", relocated_ok=True, unencrypted_ok=True)
    variables = ENVIRONMENT.variables(location)

    assert variables["BORG_RELOCATED_REPO_ACCESS_IS_OK"] == "yes"
    assert variables["BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK"] == "yes"


def test_the_ssh_command_and_the_remote_program_come_from_the_repository() -> None:
    variables = ENVIRONMENT.variables(RepositoryLocation("ssh://h/r", rsh="ssh -i key", remote_path="borg1"))

    assert (variables["BORG_RSH"], variables["BORG_REMOTE_PATH"]) == ("ssh -i key", "borg1")


def test_a_passphrase_is_passed_through_a_descriptor() -> None:
    (name, secret), *others = passphrase_secrets(RepositoryLocation("/r", "pässwörd of\ntwo lines")).items()

    assert (name, secret.delivery, secret.value) == ("BORG_PASSPHRASE_FD", "descriptor", "pässwörd of\ntwo lines")
    assert others == []


@pytest.mark.parametrize("passphrase", ["ends with a line end\n", "two\r\nlines"])
def test_a_passphrase_that_a_descriptor_would_change_is_passed_in_a_variable(passphrase: str) -> None:
    secrets = passphrase_secrets(RepositoryLocation("/r", passphrase))

    assert {name: (secret.value, secret.delivery) for name, secret in secrets.items()} == {
        "BORG_PASSPHRASE": (passphrase, "environment")
    }


@pytest.mark.parametrize("passphrase", ["a\0b", "\ud800", "raw \udce9 byte"])
def test_a_passphrase_that_cannot_be_passed_is_refused(passphrase: str) -> None:
    with pytest.raises(InvalidRequest):
        passphrase_secrets(RepositoryLocation("/r", passphrase))


def test_without_a_passphrase_a_random_one_prevents_the_engine_from_prompting() -> None:
    first, second = (passphrase_secrets(RepositoryLocation("/r"))["BORG_PASSPHRASE_FD"].value for _ in range(2))

    assert len(first) >= 32
    assert first != second


def test_an_empty_passphrase_is_passed_unchanged() -> None:
    assert passphrase_secrets(RepositoryLocation("/r", ""))["BORG_PASSPHRASE_FD"].value == ""


def test_a_location_does_not_show_its_passphrase() -> None:
    assert "hidden words" not in repr(RepositoryLocation("/r", "hidden words"))
