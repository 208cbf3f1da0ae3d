"""Ssh addresses of repositories."""

import pytest

from holdfast.errors import Unprocessable
from holdfast.repositories import ssh_address
from holdfast.repositories.ssh_address import SshAccount


@pytest.mark.parametrize(
    ("given", "spelled"),
    [
        ("ssh://backup@NAS.lan/srv/r", "ssh://backup@nas.lan:22/srv/r"),
        ("ssh://backup@nas.lan:2222//srv/./a/../r/", "ssh://backup@nas.lan:2222/srv/r"),
        ("ssh://backup@[FE80::1]:22/srv/r", "ssh://backup@[fe80::1]:22/srv/r"),
        ("ssh://nas.lan/srv/r", "ssh://nas.lan:22/srv/r"),
        ("ssh://backup@nas.lan/./r", "ssh://backup@nas.lan:22/./r"),
        ("ssh://backup@nas.lan/~/r", "ssh://backup@nas.lan:22/~/r"),
    ],
)
def test_an_address_is_normalised(given: str, spelled: str) -> None:
    address = ssh_address.require(given)

    assert address.text == spelled
    assert ssh_address.require(spelled) == address


def test_an_address_without_a_user_names_only_a_host() -> None:
    assert ssh_address.require("ssh://nas.lan:23/r").account == SshAccount(None, "nas.lan", 23)


@pytest.mark.parametrize("given", ["/srv/r", "ssh://", "ssh://host", "ssh://host/", "sftp://host/r", "host:/srv/r"])
def test_an_invalid_address_is_refused(given: str) -> None:
    with pytest.raises(Unprocessable):
        ssh_address.require(given)
