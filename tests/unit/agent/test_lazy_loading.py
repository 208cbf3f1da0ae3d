"""Standard library modules that an agent loads only when it needs them."""

import subprocess
import sys

import pytest


def printed(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def test_a_running_agent_has_not_loaded_the_ip_address_parser() -> None:
    script = "import sys, backup_agent.cli, backup_agent.commands.run, ssl; print('IPv6Address' in vars({}))"

    assert printed(script.format("sys.modules['ipaddress']")) == "False"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later versions of dataclasses need it for every class")
def test_a_running_agent_has_not_loaded_the_disassembler() -> None:
    script = "import sys, backup_agent.cli, backup_agent.commands.run, ssl; print('dis' in sys.modules)"

    assert printed(script) == "False"


def test_a_lazily_loaded_module_works_normally_when_used() -> None:
    script = """
import sys, backup_agent.cli, urllib.parse
before = sys.modules["ipaddress"]
print(urllib.parse.urlsplit("http://[::1]:80/").hostname)
import ipaddress
print(ipaddress is not before, ipaddress.ip_address("::1") == before.ip_address("::1"))
"""

    assert printed(script) == "::1\nTrue True"


def test_a_lazily_loaded_module_has_only_its_real_names() -> None:
    script = (
        "import backup_agent.cli, ipaddress; print(hasattr(ipaddress, 'nothing'), hasattr(ipaddress, 'IPv4Address'))"
    )

    assert printed(script) == "False True"
