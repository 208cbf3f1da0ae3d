"""Servers on loopback: real remotes for the tests of mirrors."""

import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.service import end_with_parent, free_port, wait_until

USER = "mirror-user"
PASSWORD = "planted-Penguin-remote-password"
RCLONE = shutil.which("rclone")
MOTO = Path(__file__).resolve().parents[2] / ".boot" / "s3" / "bin" / "moto_server"
BUCKET = "bucket"
ENVIRONMENT = {"PATH": os.environ["PATH"], "RCLONE_CONFIG": "", "HOME": "/nonexistent", "LANG": "C.UTF-8"}


@dataclass(frozen=True)
class Backend:
    """Something that is served, and how a remote of the service reaches it."""

    provider: str
    options: dict[str, Any]
    folder: Path

    def path(self, word: str) -> str:
        """A path on the remote."""
        return {"local": str(self.folder / word), "s3": f"{BUCKET}/{word}"}.get(self.provider, word)

    def seen(self, word: str) -> Path:
        """The files there, as a folder of this machine; for S3, a copy made with rclone."""
        if self.provider != "s3":
            return self.folder / word
        copy = self.folder / f"copy-{uuid.uuid4().hex}"
        variables = {f"RCLONE_CONFIG_S_{name}".upper(): str(value) for name, value in self.options.items()}
        environment = {**ENVIRONMENT, **variables, "RCLONE_CONFIG_S_TYPE": "s3"}
        subprocess.run([RCLONE or "rclone", "copy", f"s:{self.path(word)}", str(copy)], env=environment, check=True)
        return copy

    def new_remote(self, name: str) -> dict[str, Any]:
        return {"name": name, "provider": self.provider, "options": self.options}


@contextmanager
def serving(provider: str, folder: Path) -> Iterator[Backend]:
    """Serve a folder with rclone itself, or buckets with moto; `local` needs no server."""
    folder.mkdir(parents=True, exist_ok=True)
    if provider == "local":
        yield Backend("local", {}, folder)
        return
    port = free_port()
    process = subprocess.Popen(
        program(provider, folder, port),
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=end_with_parent,
    )
    try:
        wait_until(lambda: process.poll() is None and answers(port), what=f"{provider} is served")
        yield Backend(provider, options_of(provider, port), folder)
    finally:
        process.kill()
        process.wait()


def program(provider: str, folder: Path, port: int) -> list[str]:
    if provider == "s3":
        return [str(MOTO), "-H", "127.0.0.1", "-p", str(port)]
    return [
        *(RCLONE or "rclone", "serve", provider, str(folder), "--addr", f"127.0.0.1:{port}"),
        *("--user", USER, "--pass", PASSWORD, "--dir-cache-time", "0s"),
    ]


def options_of(provider: str, port: int) -> dict[str, Any]:
    url = f"http://127.0.0.1:{port}"
    options: dict[str, dict[str, Any]] = {
        "webdav": {"url": url, "vendor": "other", "user": USER, "pass": PASSWORD},
        "sftp": {"host": "127.0.0.1", "port": port, "user": USER, "pass": PASSWORD, "shell_type": "none"},
        "s3": {
            "provider": "Other",
            "endpoint": url,
            "region": "us-east-1",
            "force_path_style": True,
            "access_key_id": USER,
            "secret_access_key": PASSWORD,
        },
    }
    return options[provider]


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 2):
            return True
    except OSError:
        return False


LOCKS_AND_CACHES = ("lock.*", "lock.exclusive/**", "locks/**", "cache/**")


def are_equal(one: Path, other: Path, *, but: str = "lock.roster") -> bool:
    """Compare two folders by the content of their files, with rclone itself, ignoring the engines' locks and caches."""
    rules = [word for name in (*LOCKS_AND_CACHES, but) for word in ("--filter", f"- /{name}")]
    arguments = ("check", str(one), str(other), *rules)
    return subprocess.run([RCLONE or "rclone", *arguments], env=ENVIRONMENT, capture_output=True).returncode == 0
