"""The command line of ssh, and how its errors are interpreted."""

import shlex
from pathlib import Path

import pytest

from holdfast.execution.ssh import Answer, HostKey, SshLink


def link(folder: str = "/data") -> SshLink:
    return SshLink("backup", "nas.lan", 2222, "holdfast-7", Path(folder) / "identity-7", Path(folder) / "known-7")


def test_ssh_never_prompts_and_always_times_out() -> None:
    options = {word.removeprefix("-o") for word in link().options}

    assert options >= {
        *("BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=10"),
        *("ServerAliveInterval=10", "ServerAliveCountMax=6", "IdentityAgent=none", "IdentitiesOnly=yes"),
    }


def test_the_host_is_identified_by_an_alias_with_one_pinned_key() -> None:
    words = link().command

    assert "-oHostKeyAlias=holdfast-7" in words
    assert "-oUserKnownHostsFile=/data/known-7" in words
    assert words[-3:] == ("-p", "2222", "backup@nas.lan")


def test_the_remote_shell_survives_being_split_by_the_engine() -> None:
    words = shlex.split(link("/data of mine").rsh)

    assert (words[0], words[3]) == ("sh", "ssh")
    assert words[-2:] == ["-i", "/data of mine/identity-7"]
    assert '-oUserKnownHostsFile="/data of mine/known-7"' in words


@pytest.mark.parametrize(
    ("code", "errors", "key"),
    [
        (0, "", None),
        (1, "Permission denied", None),
        (
            255,
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            "host_key_changed",
        ),
        (255, "No ED25519 host key is known for holdfast-7 and you have requested", "host_key_changed"),
        (255, "backup@nas.lan: Permission denied (publickey).", "key_refused"),
        (255, "ssh: Could not resolve hostname nas.lan: Name or service not known", "host_unknown"),
        (255, "ssh: connect to host nas.lan port 22: Connection refused", "connection_refused"),
        (255, "ssh: connect to host nas.lan port 22: No route to host", "no_answer"),
        (255, "timed out", "no_answer"),
        (255, "Connection closed by 10.0.0.1 port 22", "closed"),
        (255, "something new", "failed"),
    ],
)
def test_each_kind_of_failure_has_its_key(code: int, errors: str, key: str | None) -> None:
    assert Answer(code, "", errors).failure == (f"ssh.{key}" if key else None)


def test_a_fingerprint_equals_the_one_that_ssh_shows() -> None:
    key = HostKey.of("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl github.com")

    assert key.fingerprint == "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"
