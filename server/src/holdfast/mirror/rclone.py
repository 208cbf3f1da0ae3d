"""The program rclone: find it, run it for short answers, and build commands for long runs.

Its configuration is never on disk. A remote is a set of environment variables, and the secret ones go through the pipe
of the shim.
"""

import json
import secrets
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from backup_engine import bounded
from backup_engine.command import Command, Secret
from backup_engine.environment import SEARCH_PATH
from backup_engine.frozen import frozen
from holdfast.errors import Unprocessable
from holdfast.mirror import engine_rclone, errors
from holdfast.mirror.providers import Provider, read_providers
from holdfast.settings import Settings

REMOTE = "mirror"
"""The name of the only remote in each call."""
ANSWER_SECONDS = 60.0
NOT_FOUND = 3
"""rclone's exit code for a missing folder."""
WITH_STATISTICS = ("--use-json-log", "--stats", "1s", "--stats-one-line", "--stats-log-level", "NOTICE", "-v")
PATIENT = ("--contimeout", "30s", "--timeout", "5m")
IMPATIENT = ("--use-json-log", "--retries", "1", "--low-level-retries", "2", "--contimeout", "10s", "--timeout", "20s")


@frozen
class Access:
    """The provider, options and secrets with which rclone reaches a remote."""

    provider: str
    options: Mapping[str, str]
    secrets: Mapping[str, str]

    def variables(self, remote: str = REMOTE) -> dict[str, str]:
        options = {"type": self.provider, **self.options}
        return {_variable(remote, name): value for name, value in options.items()}

    def secret_variables(self, remote: str = REMOTE) -> dict[str, str]:
        return {_variable(remote, name): value for name, value in self.secrets.items()}


@frozen
class Answer:
    code: int
    output: bytes
    stderr: bytes


class Rclone:
    def __init__(self, settings: Settings) -> None:
        self._configured = settings.rclone
        self._home = str(settings.engine_dir.absolute())
        self._lock = threading.Lock()
        self._known: tuple[tuple[str, int, int], dict[str, Provider]] | None = None

    def path(self) -> str:
        """The path of rclone. Raise Unprocessable if it is not installed."""
        found = shutil.which(self._configured)
        if found is None:
            raise Unprocessable(
                "rclone.not_installed",
                f"The program rclone ({self._configured}) is not installed; install rclone or set HOLDFAST_RCLONE.",
            )
        return found

    def providers(self) -> dict[str, Provider]:
        """The providers, read once per program and again after it was replaced."""
        path = self.path()
        stat = Path(path).stat()
        identity = (path, stat.st_ino, stat.st_mtime_ns)
        with self._lock:
            if self._known is None or self._known[0] != identity:
                self._known = (identity, self._read_providers())
            return self._known[1]

    def obscure(self, secret: str) -> str:
        """Given a password, return it in the obscured form that rclone requires in a configuration."""
        answer = self.ask(("obscure", "-"), given=secret.encode())
        obscured = answer.output.decode("ascii", "replace").strip()
        if answer.code != 0 or not obscured:
            raise errors.not_answering("it did not obscure a password.")
        return obscured

    def ask(
        self,
        arguments: Sequence[str],
        access: Access | None = None,
        *,
        given: bytes = b"",
        seconds: float = ANSWER_SECONDS,
    ) -> Answer:
        """Run rclone to the end for a short answer. Raise Unprocessable if it cannot be run or takes too long."""
        secrets = access.secret_variables() if access else {}
        try:
            ended = bounded.run((self.path(), *arguments), given, seconds, {**self._environment(access), **secrets})
        except subprocess.TimeoutExpired as error:
            raise errors.not_answering(f"it did not answer within {seconds:.0f} seconds.") from error
        except bounded.TooMuchOutput as error:
            raise errors.not_answering("its answer is too long.") from error
        except (OSError, ValueError) as error:
            raise errors.not_answering(f"it could not be started ({type(error).__name__}).") from error
        return Answer(ended.returncode, ended.stdout, ended.stderr)

    def command(self, arguments: Sequence[str], access: Access) -> Command:
        """The same run as a command for the shim."""
        secrets = {name: Secret(value, "environment") for name, value in access.secret_variables().items()}
        return Command((self.path(), *arguments), self._environment(access), secrets, working_directory="/")

    def rclone_wrapper(self) -> str:
        """The program for an engine that starts rclone itself. Raise Unprocessable if rclone is not installed."""
        argv = (sys.executable, "-I", "-S", engine_rclone.__file__, self.path())
        content = f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n'
        file = Path(self._home) / "rclone-of-engine"
        try:
            _write_program(file, content)
        except OSError as error:
            raise errors.not_answering(f"{file} could not be written ({error.strerror}).") from error
        return str(file)

    def _environment(self, access: Access | None) -> dict[str, str]:
        """The complete environment. Nothing is inherited: the service's own may contain secrets or other settings."""
        return {
            "PATH": SEARCH_PATH,
            "HOME": self._home,
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "RCLONE_CONFIG": "",
            "RCLONE_ASK_PASSWORD": "false",
            **(access.variables() if access else {}),
        }

    def _read_providers(self) -> dict[str, Provider]:
        answer = self.ask(("config", "providers"))
        try:
            return read_providers(json.loads(answer.output))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise errors.not_answering("it did not list its providers.") from error


def place(path: str, *below: str) -> str:
    """A path on the remote in rclone's form."""
    return f"{REMOTE}:" + "/".join(part for part in (path, *below) if part)


def _write_program(file: Path, content: str) -> None:
    """Write the program atomically, unless it exists with this content."""
    if file.exists() and file.read_text() == content:
        return
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    part.write_text(content)
    part.chmod(0o700)
    part.rename(file)


def _variable(remote: str, option: str) -> str:
    return f"RCLONE_CONFIG_{remote}_{option}".upper()
