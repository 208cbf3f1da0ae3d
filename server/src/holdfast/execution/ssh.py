"""Run commands on other machines by ssh. They never prompt and always end."""

import base64
import hashlib
import os
import re
import shlex
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from backup_engine import bounded, bounded_json
from backup_engine.frozen import frozen

CONNECT_SECONDS = 10
ANSWER_SECONDS = 60.0
FAILED = 255
"""ssh's own exit code if it could not run the command or lost the connection."""
KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")
OPTIONS = (
    *("BatchMode=yes", "StrictHostKeyChecking=yes", "UpdateHostKeys=no", "CheckHostIP=no"),
    *("GlobalKnownHostsFile=/dev/null", "IdentitiesOnly=yes", "IdentityAgent=none", "ClearAllForwardings=yes"),
    *("ControlMaster=no", "ControlPath=none", "LogLevel=ERROR"),
    *(f"ConnectTimeout={CONNECT_SECONDS}", "ServerAliveInterval=10", "ServerAliveCountMax=6"),
)
BY_PASSWORD = (
    *("BatchMode=no", "PubkeyAuthentication=no", "PreferredAuthentications=keyboard-interactive,password"),
    "NumberOfPasswordPrompts=1",
)
PASSWORD_VARIABLE = "HOLDFAST_SSH_PASSWORD"  # noqa: S105 -- the name of a variable
ASKPASS = f"#!/bin/sh\nprintf '%s\\n' \"${PASSWORD_VARIABLE}\"\n"

SSH_ENDING_LATE = 'ssh "$@"; code=$?; [ "$code" = 0 ] || sleep 0.5; exit "$code"'
"""Delay the end of the output after a failure: the engine stops reading ssh's errors once its output has ended."""

HOST_KEY_CHANGED = "ssh.host_key_changed"
KEY_REFUSED = "ssh.key_refused"
SHUT_OUT = b"Not allowed at this time"
"""What sshd (OpenSSH 9.8 and newer) sends instead of its greeting to an address with failed logins."""
REASONS = (
    (re.compile(SHUT_OUT.decode()), "ssh.shut_out"),
    (re.compile(r"IDENTIFICATION HAS CHANGED|No \S+ host key is known for"), HOST_KEY_CHANGED),
    (re.compile(r"Permission denied|Too many authentication failures"), KEY_REFUSED),
    (re.compile(r"cannot be run"), "ssh.not_installed"),
    (re.compile(r"Could not resolve hostname"), "ssh.host_unknown"),
    (re.compile(r"Connection refused"), "ssh.connection_refused"),
    (re.compile(r"timed out|No route to host|Network is unreachable|not responding"), "ssh.no_answer"),
    (re.compile(r"Connection (?:closed|reset)|Broken pipe|banner exchange"), "ssh.closed"),
)
SENTENCES = {
    HOST_KEY_CHANGED: "The host key does not match the pinned one. Find out why; accept the new key only if it is "
    "legitimate.",
    KEY_REFUSED: "The host does not accept the service's key for this user; deploy the key, or add it to "
    "authorized_keys manually.",
    "ssh.password_refused": "The host does not accept this user and password; correct them, or add the key by hand.",
    "ssh.host_unknown": "The host name cannot be resolved; correct it, or check DNS.",
    "ssh.connection_refused": "Nothing is listening on this port of the host; start sshd, or correct the port.",
    "ssh.no_answer": "The host does not respond; check that it is up, and check the network and firewalls.",
    "ssh.not_ssh": "The program on this port is not an ssh server; correct the port.",
    "ssh.shut_out": "The host is refusing this machine for a few minutes because of failed logins; wait, then try "
    "again.",
    "ssh.closed": "The host closed the connection; check its sshd log.",
    "ssh.failed": "The ssh connection failed; check the host's sshd log.",
    "ssh.not_installed": "The programs ssh and ssh-keyscan are not installed here; install openssh-client.",
}


@frozen
class SshLink:
    """Everything ssh needs to reach one account on one machine without prompting."""

    username: str
    host: str
    port: int
    alias: str
    key_file: Path
    known_hosts: Path

    @property
    def options(self) -> tuple[str, ...]:
        pinned = (f"HostKeyAlias={self.alias}", f"UserKnownHostsFile={_quoted(self.known_hosts)}")
        return ("-F", "none", *(f"-o{option}" for option in (*OPTIONS, *pinned)))

    @property
    def rsh(self) -> str:
        """The remote shell command for the engine, which appends port, user and host itself."""
        return shlex.join(("sh", "-c", SSH_ENDING_LATE, "ssh", *self.options, "-i", str(self.key_file)))

    @property
    def command(self) -> tuple[str, ...]:
        """The start of a command line that runs on that machine."""
        return ("ssh", *self.options, "-i", str(self.key_file), "-T", "-p", str(self.port), self.destination)

    @property
    def destination(self) -> str:
        return f"{self.username}@{self.host}"


@frozen
class Answer:
    code: int
    output: str
    errors: str

    @property
    def failure(self) -> str | None:
        """Why ssh itself failed; None if the command was run."""
        if self.code != FAILED:
            return None
        return next((key for pattern, key in REASONS if pattern.search(self.errors)), "ssh.failed")

    def document(self) -> Any:
        """Return the JSON in the last line of the output.

        Raise ValueError if there is none, or if it would take too much memory.
        """
        last = self.output.rstrip().rpartition("\n")[2]
        return bounded_json.document(last.encode("utf-8", "surrogateescape"))


@frozen
class HostKey:
    kind: str
    blob: str

    @property
    def text(self) -> str:
        return f"{self.kind} {self.blob}"

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(base64.b64decode(self.blob)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")

    @staticmethod
    def of(text: str) -> "HostKey":
        kind, blob = text.split()[:2]
        return HostKey(kind, blob)


def run_script(link: SshLink, script: str, seconds: float = ANSWER_SECONDS) -> Answer:
    """Run a script with the machine's /bin/sh. It is sent on standard input, so any login shell will do."""
    return _run((*link.command, "exec /bin/sh -s"), script, seconds)


def run_script_with_password(
    link: SshLink, script: str, password: str, askpass: Path, seconds: float = ANSWER_SECONDS
) -> Answer:
    """Like `run_script`, but log in with a password.

    The password is passed to ssh only in the environment of its own process.
    """
    first, last = link.options[:2], link.options[2:]
    options = (*first, *(f"-o{option}" for option in BY_PASSWORD), *last)
    command = ("ssh", *options, "-T", "-p", str(link.port), link.destination, "exec /bin/sh -s")
    variables = {
        "SSH_ASKPASS": str(askpass),
        "SSH_ASKPASS_REQUIRE": "force",
        "DISPLAY": ":",
        PASSWORD_VARIABLE: password,
    }
    return _run(command, script, seconds, variables)


def run_here(command: tuple[str, ...], seconds: float = ANSWER_SECONDS) -> Answer:
    """Like `run_script`, but run a program on this machine. A program that exceeds the time limit counts as failed."""
    return _run(command, "", seconds)


TOO_MUCH = "the machine's answer is too long"


class RemoteProgram:
    """A program on another machine that reads all of its input before it writes an answer."""

    def __init__(self, command: tuple[str, ...]) -> None:
        """Raise OSError if ssh cannot be run."""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
            start_new_session=True,
        )

    def send(self, data: bytes) -> None:
        """Send bytes to the program. If it has stopped reading, its answer gives the reason."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(data)

    def answer(self, seconds: float = ANSWER_SECONDS) -> Answer:
        try:
            output, errors = bounded.answer_of(self._process, b"", seconds)
        except subprocess.TimeoutExpired:
            return Answer(FAILED, "", "timed out")
        except bounded.TooMuchOutput:
            return Answer(FAILED, "", TOO_MUCH)
        return Answer(self._process.returncode, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"))

    def close(self) -> None:
        bounded.end(self._process)


def why_unreachable(host: str, port: int) -> str | None:
    """Given a host, return why no ssh server can be reached there, or None if one answers."""
    try:
        with socket.create_connection((host, port), CONNECT_SECONDS) as connection:
            greeting = connection.recv(64)
    except socket.gaierror:
        return "ssh.host_unknown"
    except ConnectionRefusedError:
        return "ssh.connection_refused"
    except (OSError, UnicodeError):
        return "ssh.no_answer"
    if greeting.startswith(SHUT_OUT):
        return "ssh.shut_out"
    return None if greeting.startswith(b"SSH-") else "ssh.not_ssh"


def scan_host_key(host: str, port: int, kind: str | None = None) -> HostKey | None:
    """The best host key that the host offers now, or the one of the given kind if it offers that."""
    wanted = ("ssh-keyscan", "-T", str(CONNECT_SECONDS), "-p", str(port), "-t", "ed25519,ecdsa,rsa", "--", host)
    shown = _run(wanted, "", CONNECT_SECONDS * 4).output
    found = {key.kind: key for line in shown.splitlines() if (key := _scanned(line)) is not None}
    if kind in found:
        return found[kind]
    return next((found[name] for name in KEY_TYPES if name in found), None)


def _scanned(line: str) -> HostKey | None:
    words = line.split()
    return HostKey(words[1], words[2]) if len(words) == 3 and words[1] in KEY_TYPES else None


def _run(command: tuple[str, ...], given: str, seconds: float, variables: dict[str, str] | None = None) -> Answer:
    path = os.environ.get("PATH", os.defpath)
    try:
        done = bounded.run(
            command,
            given.encode(),
            seconds,
            {"PATH": path, "LANG": "C.UTF-8", **(variables or {})},
            start_new_session=True,  # without a terminal, nothing can ask for a password there
        )
    except subprocess.TimeoutExpired:
        return Answer(FAILED, "", "timed out")
    except bounded.TooMuchOutput:
        return Answer(FAILED, "", TOO_MUCH)
    except OSError as error:
        return Answer(FAILED, "", f"cannot be run: {error}")
    return Answer(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def _quoted(path: Path) -> str:
    """Quote a file name for an ssh option, which is parsed like a line of ssh's configuration."""
    return '"' + str(path).replace("%", "%%") + '"' if re.search(r"[\s%]", str(path)) else str(path)
