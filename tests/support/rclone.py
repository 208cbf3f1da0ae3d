"""rclone servers on loopback: real remotes for the tests of mirrors."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.support.service import end_with_parent, free_port, wait_until

USER = "mirror-user"
PASSWORD = "planted-Penguin-remote-password"
RCLONE = shutil.which("rclone")
ENVIRONMENT = {"PATH": os.environ["PATH"], "RCLONE_CONFIG": "", "HOME": "/nonexistent", "LANG": "C.UTF-8"}


@dataclass(frozen=True)
class Backend:
    """A served folder, and how a remote of the service reaches it."""

    provider: str
    options: dict[str, Any]
    folder: Path
    """What is stored on the remote, seen from this machine."""

    def path(self, word: str) -> str:
        """A path on the remote."""
        return str(self.folder / word) if self.provider == "local" else word

    def new_remote(self, name: str) -> dict[str, Any]:
        return {"name": name, "provider": self.provider, "options": self.options}


@contextmanager
def serving(provider: str, folder: Path) -> Iterator[Backend]:
    """Serve a folder with rclone itself; `local` needs no server."""
    folder.mkdir(parents=True, exist_ok=True)
    if provider == "local":
        yield Backend("local", {}, folder)
        return
    port = free_port()
    process = subprocess.Popen(
        [
            *(RCLONE or "rclone", "serve", provider, str(folder), "--addr", f"127.0.0.1:{port}"),
            *("--user", USER, "--pass", PASSWORD, "--dir-cache-time", "0s"),
        ],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=end_with_parent,
    )
    try:
        wait_until(lambda: process.poll() is None and answers(provider, port), 30, what=f"rclone serves {provider}")
        yield Backend(provider, options_of(provider, port), folder)
    finally:
        process.kill()
        process.wait()


def options_of(provider: str, port: int) -> dict[str, Any]:
    if provider == "webdav":
        return {"url": f"http://127.0.0.1:{port}", "vendor": "other", "user": USER, "pass": PASSWORD}
    return {"host": "127.0.0.1", "port": port, "user": USER, "pass": PASSWORD, "shell_type": "none"}


def answers(provider: str, port: int) -> bool:
    if provider == "webdav":
        try:
            return httpx2.get(f"http://127.0.0.1:{port}/", timeout=2).status_code == 401
        except httpx2.TransportError:
            return False
    try:
        with socket.create_connection(("127.0.0.1", port), 2):
            return True
    except OSError:
        return False


def are_equal(one: Path, other: Path, *, but: str = "lock.roster") -> bool:
    """Compare two folders by the content of their files, with rclone itself; the engine's locks do not count."""
    rules = [word for name in ("lock.*", "lock.exclusive/**", but) for word in ("--filter", f"- /{name}")]
    arguments = ("check", str(one), str(other), *rules)
    return subprocess.run([RCLONE or "rclone", *arguments], env=ENVIRONMENT, capture_output=True).returncode == 0
