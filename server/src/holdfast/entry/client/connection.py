"""A client's connection to a running service: its address, who is logged in, and what its errors mean."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from backup_engine import own_files
from backup_engine.frozen import frozen
from holdfast.entry.client import exit_codes
from holdfast.entry.client.output import fail

if TYPE_CHECKING:
    import httpx2

DEFAULT_SERVER = "http://127.0.0.1:8080"
WRONG_CERTIFICATE = "CERTIFICATE_VERIFY_FAILED"


@frozen
class Login:
    server: str
    token: str
    ca_file: str | None = None


def login_file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "holdfast" / "login.json"


def save_login(login: Login) -> None:
    file = login_file()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = file.with_suffix(".part")
    with os.fdopen(own_files.created(part), "w") as stream:
        json.dump(asdict(login), stream)
    part.replace(file)


def forget_login() -> None:
    login_file().unlink(missing_ok=True)


def saved_login() -> Login | None:
    """The login to use: from the environment, otherwise the saved one.

    A login file that other users can write is rejected: they could choose the service that secrets are sent to.
    """
    server, token = os.environ.get("HOLDFAST_SERVER"), os.environ.get("HOLDFAST_TOKEN")
    if token:
        return Login((server or DEFAULT_SERVER).rstrip("/"), token, os.environ.get("HOLDFAST_CA_FILE"))
    try:
        saved = json.loads(own_files.read(login_file()))
        ca_file = os.environ.get("HOLDFAST_CA_FILE") or saved.get("ca_file")
        return Login((server or saved["server"]).rstrip("/"), saved["token"], ca_file)
    except own_files.UntrustedFile as error:
        fail(f"{error} Remove it, and log in again.", exit_codes.USAGE)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


class Api:
    """Calls the service. An error response ends the program with its sentence and code."""

    def __init__(self, server: str, token: str | None, ca_file: str | None = None) -> None:
        import httpx2  # here, because `serve` shares the command and does not need it

        self.server = server
        self._token = token
        self._ca_file = ca_file
        self._lost = httpx2.TransportError
        headers = {"X-Backup-Authorization": f"Bearer {token}"} if token else {}
        try:
            self._client = httpx2.Client(
                base_url=server, headers=headers, timeout=60, verify=_trusted(server, ca_file), follow_redirects=False
            )
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, ValueError) as error:
            fail(f"{server} is not an address: {error}.", exit_codes.USAGE)

    def get(self, path: str, /, **params: Any) -> Any:
        return self._call("GET", path, params={name: value for name, value in params.items() if value is not None})

    def post(self, path: str, body: dict[str, Any] | None = None, **more: Any) -> Any:
        return self._call("POST", path, json=body, **more)

    def put(self, path: str, body: dict[str, Any]) -> Any:
        return self._call("PUT", path, json=body)

    def delete(self, path: str, /, **params: Any) -> Any:
        return self._call("DELETE", path, params=params)

    @contextmanager
    def stream(self, path: str, /, **params: Any) -> "Iterator[httpx2.Response]":
        try:
            with self._client.stream("GET", path, params=params, timeout=None) as answer:
                if answer.status_code >= 400:
                    answer.read()
                    self._refused(answer)
                yield answer
        except self._lost as error:
            self._unreachable(error)

    def _call(self, method: str, path: str, **more: Any) -> Any:
        return self._content(self._answered(method, path, **more))

    def _answered(self, method: str, path: str, **more: Any) -> "httpx2.Response":
        answer = self._send(method, path, **more)
        if answer.status_code == 401 and self._token and self._renewed():
            answer = self._send(method, path, **more)
        return answer

    def _content(self, answer: "httpx2.Response") -> Any:
        if answer.status_code >= 400:
            self._refused(answer)
        if not answer.content:
            return None
        try:
            return answer.json()
        except ValueError:
            self._not_holdfast(answer)

    def _send(self, method: str, path: str, **more: Any) -> "httpx2.Response":
        try:
            return self._client.request(method, path, **more)
        except self._lost as error:
            self._unreachable(error)

    def _unreachable(self, error: Exception) -> NoReturn:
        if WRONG_CERTIFICATE in str(error):
            fail(
                f"the certificate of {self.server} is not trusted: {error}. If it is signed by your own authority, "
                "log in with --ca-file FILE, or set HOLDFAST_CA_FILE.",
                exit_codes.UNREACHABLE,
                key="client.certificate",
            )
        fail(
            f"cannot reach {self.server}: {error}. Check that the service is running, and the address (holdfast login "
            f"--server ADDRESS, or HOLDFAST_SERVER).",
            exit_codes.UNREACHABLE,
            key="client.unreachable",
        )

    def _renewed(self) -> bool:
        """Get a new access token for the same session: a token is valid for minutes, a session for days."""
        answer = self._send("POST", "/api/auth/refresh")
        if answer.status_code != 200 or os.environ.get("HOLDFAST_TOKEN"):
            return False
        self._token = answer.json()["access_token"]
        self._client.headers["X-Backup-Authorization"] = f"Bearer {self._token}"
        save_login(Login(self.server, str(self._token), self._ca_file))
        return True

    def _refused(self, answer: "httpx2.Response") -> NoReturn:
        code = exit_codes.OF_HTTP_STATUS.get(answer.status_code, exit_codes.FAILED)
        try:
            detail = answer.json()["detail"]
        except (ValueError, KeyError, TypeError):
            if answer.status_code == 413:
                self._refused_by_proxy()
            self._not_holdfast(answer)
        if isinstance(detail, list):
            sentences = [f"{'.'.join(str(part) for part in field['loc'][1:])}: {field['msg']}" for field in detail]
            fail("; ".join(sentences), code, key="client.invalid", params={"fields": detail})
        if not isinstance(detail, dict):
            fail(str(detail), code)
        sentence = str(detail.get("message"))
        if answer.status_code == 401 and self._token:
            sentence = f"You are no longer logged in: {sentence} Log in again: holdfast login --server {self.server}"
        fail(sentence, code, key=detail.get("key"), params=detail.get("params"))

    def _refused_by_proxy(self) -> NoReturn:
        fail(
            f"a proxy in front of {self.server} refuses large requests (HTTP 413); this one did not reach the service. "
            "Raise the proxy's limit (nginx: client_max_body_size).",
            exit_codes.USAGE,
            key="client.body_refused",
        )

    def _not_holdfast(self, answer: "httpx2.Response") -> NoReturn:
        code = exit_codes.OF_HTTP_STATUS.get(answer.status_code, exit_codes.FAILED)
        fail(
            f"{self.server} answered {answer.status_code} without a reason, unlike Holdfast. Check the address; a "
            f"proxy may have answered instead.",
            code,
            key="client.not_holdfast",
        )


def _trusted(server: str, ca_file: str | None) -> Any:
    """Which certificates to trust. Loading them takes a while, so plain HTTP skips it."""
    if not server.startswith("https:"):
        return False
    if ca_file is None:
        return True
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        fail(f"cannot read the certificates in {ca_file}: {error.strerror or error}.", exit_codes.USAGE)


def api() -> Api:
    """A client for the service that the user is logged in to."""
    login = saved_login()
    if login is None:
        fail("not logged in. Log in first: holdfast login --server ADDRESS", exit_codes.NOT_ALLOWED, key="client.login")
    return Api(login.server, login.token, login.ca_file)


def quietly(path: str) -> Any:
    """The service's answer if it comes within two seconds, else None: for completions, which must not print errors."""
    import httpx2

    login = saved_login()
    if login is None or (login.ca_file and not Path(login.ca_file).is_file()):
        return None
    headers = {"X-Backup-Authorization": f"Bearer {login.token}"}
    try:
        verify = _trusted(login.server, login.ca_file)
        answer = httpx2.get(f"{login.server}{path}", headers=headers, timeout=2, verify=verify)
        return answer.json() if answer.status_code == 200 else None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, typer.Exit):
        return None


def read_secret(prompt: str, *, from_input: bool, variable: str | None = None, repeat: bool = False) -> str:
    """Read a secret from standard input, an environment variable or a hidden prompt; never from arguments."""
    if from_input:
        return sys.stdin.readline().rstrip("\n")
    if variable is not None and (given := os.environ.get(variable)):
        return given
    if not sys.stdin.isatty():
        wanted = f", or set {variable}" if variable else ""
        fail(f"{prompt}: no terminal for a prompt. Pipe it in (see --help){wanted}.", exit_codes.USAGE)
    secret: str = typer.prompt(prompt, hide_input=True, confirmation_prompt=repeat)
    return secret
