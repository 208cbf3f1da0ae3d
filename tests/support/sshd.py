"""A real sshd, on loopback or in its own network, with a home folder and keys that it shares with no other."""

import contextlib
import functools
import getpass
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.support.service import Client, end_with_parent, free_port, wait_until

PROGRAM = shutil.which("sshd") or "/usr/sbin/sshd"
PASSWORD = "a password of the account"
SERVING = ("sshd", "sshd-session")
PRIVILEGE_SEPARATION = Path("/run/sshd")
CONFIGURATION = """
Port {port}
ListenAddress {address}
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {home}/.ssh/authorized_keys
PermitRootLogin yes
StrictModes no
UsePAM no
KexAlgorithms curve25519-sha256
PasswordAuthentication {password}
KbdInteractiveAuthentication no
LogLevel VERBOSE
MaxStartups 200
SetEnv HOME={home} PATH={path}
{penalties}
"""
"""The usual key exchange (sntrup761) takes clients a tenth of a second of processor time at each connection."""


@functools.cache
def has_penalties() -> bool:
    """Whether this sshd refuses an address for a while after failed logins (OpenSSH 9.8 and newer)."""
    told = subprocess.run(["ssh", "-V"], capture_output=True, text=True, check=False).stderr
    found = re.search(r"OpenSSH_(\d+)\.(\d+)", told)
    return found is not None and (int(found[1]), int(found[2])) >= (9, 8)


@dataclass
class Sshd:
    """A machine reached over ssh. Its account is that of the user who runs the tests, with a separate home."""

    folder: Path
    path: str = "/usr/local/bin:/usr/bin:/bin"
    takes_passwords: bool = False
    """Needs root: only this sshd sees the file with the password, in place of the system's file."""
    address: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()
    """A program that starts it, with its arguments: for a machine in its own network."""
    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def authorized_keys(self) -> Path:
        return self.home / ".ssh" / "authorized_keys"

    @property
    def username(self) -> str:
        return getpass.getuser()

    def start(self) -> "Sshd":
        (self.home / ".ssh").mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.geteuid() == 0:
            PRIVILEGE_SEPARATION.mkdir(exist_ok=True, mode=0o755)
        if not (self.folder / "host_key").exists():
            self.new_host_key()
        configuration = self.folder / "sshd_config"
        password = "yes" if self.takes_passwords else "no"
        configuration.write_text(
            CONFIGURATION.format(
                address=self.address,
                port=self.port,
                folder=self.folder,
                home=self.home,
                path=self.path,
                password=password,
                penalties="PerSourcePenalties no" if has_penalties() else "",
            )
        )
        command = [*self.prefix, PROGRAM, "-D", "-e", "-f", str(configuration)]
        with (self.folder / "sshd.log").open("ab") as log:
            self.process = subprocess.Popen(
                self._with_password(command) if self.takes_passwords else command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,
                start_new_session=True,
            )
        wait_until(self._listens, what="sshd listens")
        return self

    def _with_password(self, command: list[str]) -> list[str]:
        """The command in a mount namespace in which the account has a password."""
        shadow = self.folder / "shadow"
        crypted = subprocess.run(
            ["openssl", "passwd", "-6", PASSWORD], capture_output=True, text=True, check=True
        ).stdout.strip()
        shadow.write_text(f"{self.username}:{crypted}:19000:0:99999:7:::\n")
        shadow.chmod(0o600)
        script = f"mount --bind {shlex.quote(str(shadow))} /etc/shadow && exec {shlex.join(command)}"
        return ["unshare", "--mount", "sh", "-c", script]

    def _listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        return f"Server listening on {self.address} port {self.port}" in self.log()

    def log(self) -> str:
        return (self.folder / "sshd.log").read_text(errors="replace")

    def new_host_key(self) -> None:
        """Change the host key, which takes effect at the next start."""
        key = self.folder / "host_key"
        for file in (key, key.with_suffix(".pub")):
            file.unlink(missing_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)

    def authorize(self, public_key: str) -> None:
        self.authorized_keys.write_text(public_key + "\n")

    def greet(self, text: str) -> None:
        """Make each login print something before its command runs, like a careless profile."""
        keys = [f'command="echo {text}; eval \\"$SSH_ORIGINAL_COMMAND\\"" {line}' for line in self._keys()]
        self.authorized_keys.write_text("\n".join(keys) + "\n")

    def _keys(self) -> list[str]:
        return self.authorized_keys.read_text().splitlines()

    def sessions(self) -> list[psutil.Process]:
        """The sshd processes that serve a connection."""
        assert self.process is not None
        return psutil.Process(self.process.pid).children()

    def cut_links(self) -> int:
        """Kill the processes that serve connections, as if they were cut; what those started may continue or not."""
        cut = 0
        for session in self.sessions():
            parts = [session]
            with contextlib.suppress(psutil.NoSuchProcess):
                parts += [child for child in session.children() if child.name() in SERVING]
            for part in parts:
                with contextlib.suppress(psutil.NoSuchProcess):
                    part.send_signal(signal.SIGKILL)
                    cut += 1
        return cut

    def stop(self) -> None:
        """Accept no new connections; existing ones continue."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
            (self.folder / "sshd.log").unlink()

    def connection(self, client: Client, name: str, **more: object) -> int:
        """Add the machine to a service, with the service's key in its authorized_keys."""
        self.authorize(client.get("/api/ssh-connections/system-key").json()["public_key"])
        return self.unauthorized_connection(client, name, **more)

    def unauthorized_connection(self, client: Client, name: str, **more: object) -> int:
        body = {"name": name, "host": self.address, "port": self.port, "username": self.username, **more}
        answer = client.post("/api/ssh-connections", json=body)
        assert answer.status_code == 201, answer.text
        number: int = answer.json()["id"]
        return number


@contextmanager
def sshd(folder: Path, **more: object) -> Iterator[Sshd]:
    folder.mkdir(parents=True, exist_ok=True)
    machine = Sshd(folder, **more)  # type: ignore[arg-type]
    try:
        yield machine.start()
    finally:
        if machine.process is not None:
            machine.cut_links()
        machine.stop()
