"""A separate network for a machine of the tests: a namespace, connected to this one by a pair of interfaces, that can
be cut off.

A cut is silent: connections are not reset, packets simply do not arrive. The namespace has no name. It lives as long as
its holder process, which ends with the tests whatever happens to them, and its interfaces disappear with it.
"""

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from tests.support.service import end_with_parent, wait_until

CABLE, PACKETS, ANSWERS = "cable", "packets", "answers"
WAYS = (CABLE, PACKETS, ANSWERS)
"""Kinds of cuts: the cable is pulled at the machine; packets are dropped in both directions; or only those that the
machine sends.
"""
NOBODY = "02:00:00:00:00:99"
ADDRESSES = IPv4Address("198.18.0.0")
"""A range reserved for tests of networks: four addresses for each interface."""
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Network:
    holder: int
    near: str
    far: str
    near_address: str
    address: str

    def inside(self, *command: str) -> tuple[str, ...]:
        """The command that runs a command inside the network."""
        return ("nsenter", f"--net=/proc/{self.holder}/ns/net", "--", *command)

    def cut(self, way: str = PACKETS) -> None:
        if way == CABLE:
            _run(*self.inside("ip", "link", "set", self.far, "down"))
            return
        _run(*self.inside(*_misdirect(self.near_address, self.far)))
        if way == PACKETS:
            _run(*_misdirect(self.address, self.near))

    def heal(self) -> None:
        """Undo any cut."""
        _run(*self.inside("ip", "link", "set", self.far, "up"))
        for command in (self.inside(*_forget(self.near_address, self.far)), _forget(self.address, self.near)):
            subprocess.run(command, check=False, capture_output=True)


def why_not(*namespaces: str) -> str | None:
    """The reason why no such namespace (options of `unshare`; by default a network) can be created here, or None."""
    if os.geteuid() != 0:
        return "namespaces need root"
    needed = ("unshare",) if namespaces else ("ip", "unshare", "nsenter")
    if missing := [name for name in needed if shutil.which(name) is None]:
        return f"not installed: {', '.join(missing)}"
    command = ["unshare", *(namespaces or ("--net",)), "true"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    return tried.stderr.strip() or f"{' '.join(command)} fails" if tried.returncode else None


@contextmanager
def network() -> Iterator[Network]:
    holder = subprocess.Popen(
        ["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL, preexec_fn=end_with_parent
    )
    near = ""
    try:
        wait_until(lambda: _namespace(holder.pid) != _namespace(os.getpid()), what="the namespace is there")
        wait_until(lambda: _program(holder.pid) == "sleep", what="the namespace is held")
        name = f"hf{os.getpid()}n{next(_numbers)}"
        _run("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}f", "netns", str(holder.pid))
        near = name
        yield _joined(holder.pid, near, f"{near}f")
    finally:
        if near:  # remove it at once; otherwise the namespace would take it along a little later
            subprocess.run(["ip", "link", "del", near], check=False, capture_output=True)
        holder.kill()
        holder.wait()


def _joined(holder: int, near: str, far: str) -> Network:
    """Connect the namespace. Live interfaces have distinct numbers, so no two networks have the same addresses."""
    number = int(Path(f"/sys/class/net/{near}/ifindex").read_text())
    first = ADDRESSES + 4 * (number % (1 << 15))
    made = Network(holder, near, far, str(first + 1), str(first + 2))
    _run("ip", "address", "add", f"{made.near_address}/30", "dev", near)
    _run("ip", "link", "set", near, "up")
    _run(*made.inside("ip", "address", "add", f"{made.address}/30", "dev", far))
    _run(*made.inside("ip", "link", "set", "lo", "up"))
    _run(*made.inside("ip", "link", "set", far, "up"))
    return made


def _misdirect(address: str, interface: str) -> tuple[str, ...]:
    """Send packets for this address to a network card that does not exist."""
    return ("ip", "neigh", "replace", address, "lladdr", NOBODY, "dev", interface, "nud", "permanent")


def _forget(address: str, interface: str) -> tuple[str, ...]:
    return ("ip", "neigh", "del", address, "dev", interface)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)


def _namespace(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/ns/net")


def _program(pid: int) -> str:
    return re.sub(r"\s", "", Path(f"/proc/{pid}/comm").read_text())
