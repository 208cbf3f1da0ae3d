"""Options of rclone that grant access are never returned, however rclone marks them."""

from typing import Any

import pytest

from holdfast.mirror.providers import holds_secret, read_providers

SECRET = (
    *("pass", "password2", "bearer_token", "headers", "authorization", "2fa", "connection_string", "access_grant"),
    *("passphrase", "cookie", "client_secret", "key", "key_pem", "sse_customer_key_base64", "encryption_key"),
)
PLAIN = ("url", "vendor", "user", "ask_password", "env_auth", "region", "key_file", "token_url", "auth_url", "endpoint")


def is_secret(**told: Any) -> bool:
    (provider,) = read_providers([{"Name": "any", "Options": [told]}]).values()
    return provider.options[told["Name"]].is_secret


@pytest.mark.parametrize("name", SECRET)
def test_an_option_that_grants_access_is_secret_even_if_rclone_does_not_mark_it(name: str) -> None:
    assert is_secret(Name=name)


@pytest.mark.parametrize("name", PLAIN)
def test_an_option_that_only_names_a_place_is_readable(name: str) -> None:
    assert not is_secret(Name=name)


def test_an_option_that_rclone_marks_is_secret_unless_it_is_the_host() -> None:
    assert is_secret(Name="harmless", IsPassword=True)
    assert is_secret(Name="harmless", Sensitive=True)
    assert not is_secret(Name="host", Sensitive=True)


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("https://anna:hunter2@nas.example/dav", True),
        ("HTTPS://anna:@nas.example", True),
        ("https://nas.example:8443/dav", False),
        ("https://anna@nas.example/dav", False),
        ("anna:hunter2", False),
    ],
)
def test_an_address_that_contains_a_password_is_secret(value: str, secret: bool) -> None:
    assert holds_secret(value) is secret
