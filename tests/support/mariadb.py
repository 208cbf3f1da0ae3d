"""A private MariaDB server for tests, on a socket in its own folder. It ends with this process."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.postgres_guard import die_with_parent
from tests.support.service import wait_until

PROGRAMS = ("mariadb-install-db", "mariadbd", "mariadb", "mariadb-dump")
SEARCHED = "/usr/local/bin:/usr/bin:/usr/sbin:/bin"
MISSING = "MariaDB is not installed: run tools/setup.sh test where packages can be installed"


def has_mariadb() -> bool:
    return all(shutil.which(program, path=SEARCHED) for program in PROGRAMS)


@dataclass(frozen=True)
class MariaDb:
    socket: Path

    def run(self, statement: str, database: str = "") -> str:
        """Run a statement and return the client's output, one row per line."""
        command = [*_client(self.socket), "--batch", "--skip-column-names", "-e", statement, *filter(None, [database])]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def load(self, file: Path, database: str) -> None:
        with file.open("rb") as dump:
            subprocess.run([*_client(self.socket), database], stdin=dump, check=True, capture_output=True)


def _client(socket: Path) -> list[str]:
    return [_program("mariadb"), "--no-defaults", f"--socket={socket}", "--user=root"]


def _program(name: str) -> str:
    found = shutil.which(name, path=SEARCHED)
    assert found is not None, MISSING
    return found


@contextmanager
def mariadb_server() -> Iterator[MariaDb]:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-mariadb-"))  # short: the path of a socket has a limit
    data, socket, log = folder / "data", folder / "socket", folder / "log"
    user = ["--user=root"] if folder.owner() == "root" else []
    with log.open("wb") as written:
        installing = ["--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", *user]
        subprocess.run([_program("mariadb-install-db"), *installing], check=True, stdout=written, stderr=written)
        settings = [
            "--skip-networking",
            f"--socket={socket}",
            f"--pid-file={folder / 'pid'}",
            "--innodb-buffer-pool-size=16M",
        ]
        server = subprocess.Popen(
            [_program("mariadbd"), "--no-defaults", f"--datadir={data}", *settings, *user],
            stdout=written,
            stderr=written,
            preexec_fn=die_with_parent,
        )
    try:
        wait_until(lambda: _answers(server, socket, log), what="the MariaDB server answers")
        yield MariaDb(socket)
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _answers(server: "subprocess.Popen[bytes]", socket: Path, log: Path) -> bool:
    assert server.poll() is None, log.read_text(errors="replace")[-2000:]
    asked = subprocess.run([*_client(socket), "-e", "SELECT 1"], check=False, capture_output=True)
    return asked.returncode == 0
