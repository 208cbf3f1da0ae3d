"""Debian's nginx in front of a service, as in many installations.

`make setup` installs it. If it is missing, its tests are skipped; in CI, that is an error.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.support.service import PATIENCE, end_with_parent, free_port, wait_until

CONFIGURATION = """
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/answers;
    fastcgi_temp_path {folder}/unused;
    uwsgi_temp_path {folder}/unused;
    scgi_temp_path {folder}/unused;
    server {{
        listen 127.0.0.1:{port};
        client_max_body_size {largest};
        location / {{
            proxy_pass http://127.0.0.1:{behind};
            proxy_read_timeout 700s;
        }}
    }}
}}
"""


class NginxMissing(Exception):
    pass


def find_nginx() -> str | None:
    """Return the program. Raise NginxMissing in CI if it is missing."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if found is None and os.environ.get("CI") == "true":
        raise NginxMissing("no nginx: `tools/setup.sh test` installs it")
    return found


NGINX = find_nginx()
needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not installed: make setup")


@contextmanager
def nginx(folder: Path, behind: int, largest: str) -> Iterator[str]:
    """The address of an nginx that forwards requests to a port of this machine, with bodies up to a size ("4k")."""
    assert NGINX is not None
    folder.mkdir()
    port = free_port()
    file = folder / "nginx.conf"
    file.write_text(CONFIGURATION.format(folder=folder, port=port, behind=behind, largest=largest))
    command = [NGINX, "-p", str(folder), "-e", "stderr", "-c", str(file)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=end_with_parent)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until(lambda: _answers(address, process, folder / "log"), what="nginx answers")
        yield address
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _answers(address: str, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    assert process.poll() is None, f"nginx ended with {process.returncode}: {log.read_text(errors='replace')}"
    try:
        return httpx2.get(f"{address}/health/live", timeout=5, verify=False).status_code == 200
    except httpx2.TransportError:
        return False
