"""Proxies from the environment."""

import pytest

from backup_agent.proxies import Proxy, proxy_for


def test_without_variables_there_is_no_proxy() -> None:
    assert proxy_for("https", "service", 443, {}) is None


@pytest.mark.parametrize("name", ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])
def test_the_usual_variables_set_the_proxy(name: str) -> None:
    assert proxy_for("https", "service", 443, {name: "http://proxy:3128"}) == Proxy("proxy", 3128)


def test_the_proxy_of_another_scheme_is_not_used() -> None:
    assert proxy_for("https", "service", 443, {"http_proxy": "http://proxy:3128"}) is None


def test_a_name_and_password_become_a_header() -> None:
    found = proxy_for("http", "service", 80, {"http_proxy": "anna:p%40ss@proxy:3128"})

    assert found == Proxy("proxy", 3128, "Basic YW5uYTpwQHNz")


@pytest.mark.parametrize(
    "exempt", ["*", "example.org", ".example.org", "a.example.org", "x, example.org ,y", "example.org:443"]
)
def test_an_exempt_host_bypasses_the_proxy(exempt: str) -> None:
    environment = {"https_proxy": "http://proxy:3128", "no_proxy": exempt}

    assert proxy_for("https", "a.example.org", 443, environment) is None


@pytest.mark.parametrize("exempt", ["", "ample.org", "b.example.org", "example.org:8443", "example.com"])
def test_other_hosts_use_the_proxy(exempt: str) -> None:
    environment = {"https_proxy": "http://proxy:3128", "no_proxy": exempt}

    assert proxy_for("https", "a.example.org", 443, environment) is not None
