"""A client's connection to a running service: where it is, who logs in, what its errors mean for the exit code."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    import httpx2

DEFAULT_SERVER = "http://127.0.0.1:8080"
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_ALLOWED = 3
EXIT_NOT_FOUND = 4
EXIT_CONFLICT = 5
EXIT_UNREACHABLE = 6
EXIT_WARNINGS = 7

EXIT_OF_STATUS = {
    400: EXIT_USAGE,
    401: EXIT_NOT_ALLOWED,
    403: EXIT_NOT_ALLOWED,
    404: EXIT_NOT_FOUND,
    409: EXIT_CONFLICT,
    413: EXIT_USAGE,
    422: EXIT_USAGE,
    423: EXIT_CONFLICT,
    429: EXIT_NOT_ALLOWED,
    503: EXIT_UNREACHABLE,
}


@dataclass(frozen=True, slots=True)
class Login:
    server: str
    token: str


def login_file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "holdfast" / "login.json"


def save_login(login: Login) -> None:
    file = login_file()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = file.with_suffix(".part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        json.dump(asdict(login), stream)
    part.replace(file)


def forget_login() -> None:
    login_file().unlink(missing_ok=True)


def saved_login() -> Login | None:
    """The login in force: from the environment, else the saved one."""
    server, token = os.environ.get("HOLDFAST_SERVER"), os.environ.get("HOLDFAST_TOKEN")
    if token:
        return Login(server or DEFAULT_SERVER, token)
    try:
        saved = json.loads(login_file().read_text())
        return Login(server or saved["server"], saved["token"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def fail(message: str, code: int) -> NoReturn:
    typer.echo(f"holdfast: {message}", err=True)
    raise typer.Exit(code)


class Api:
    """Calls of the service; an answer that is an error ends the program with its sentence and code."""

    def __init__(self, server: str, token: str | None) -> None:
        headers = {"X-Backup-Authorization": f"Bearer {token}"} if token else {}
        self.server = server
        import httpx2  # here and not above: `serve` shares the command, and has no use for it

        self._lost = httpx2.TransportError
        self._client = httpx2.Client(base_url=server, headers=headers, timeout=60)
        self._token = token

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
            fail(f"cannot reach {self.server}: {error}", EXIT_UNREACHABLE)

    def _call(self, method: str, path: str, **more: Any) -> Any:
        answer = self._send(method, path, **more)
        if answer.status_code == 401 and self._token and self._renewed():
            answer = self._send(method, path, **more)
        if answer.status_code >= 400:
            self._refused(answer)
        return answer.json() if answer.content else None

    def _send(self, method: str, path: str, **more: Any) -> "httpx2.Response":
        try:
            return self._client.request(method, path, **more)
        except self._lost as error:
            fail(f"cannot reach {self.server}: {error}", EXIT_UNREACHABLE)

    def _renewed(self) -> bool:
        """An access token lives for minutes, its session for days: take a new one for the same session."""
        answer = self._send("POST", "/api/auth/refresh")
        if answer.status_code != 200 or os.environ.get("HOLDFAST_TOKEN"):
            return False
        self._token = answer.json()["access_token"]
        self._client.headers["X-Backup-Authorization"] = f"Bearer {self._token}"
        save_login(Login(self.server, str(self._token)))
        return True

    def _refused(self, answer: "httpx2.Response") -> NoReturn:
        code = EXIT_OF_STATUS.get(answer.status_code, EXIT_FAILED)
        try:
            detail = answer.json()["detail"]
        except (ValueError, KeyError, TypeError):
            fail(f"the service answered {answer.status_code}", code)
        if isinstance(detail, list):
            sentences = [f"{'.'.join(str(part) for part in field['loc'][1:])}: {field['msg']}" for field in detail]
            fail("; ".join(sentences), code)
        if answer.status_code == 401:
            fail(f"{detail['message']} (holdfast login)", code)
        fail(f"{detail['message']} ({detail['key']})", code)


def api() -> Api:
    """The service that the user is logged in to."""
    login = saved_login()
    if login is None:
        fail("not logged in; run: holdfast login", EXIT_NOT_ALLOWED)
    return Api(login.server, login.token)


def read_password(prompt: str, *, from_input: bool) -> str:
    if from_input or not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    password: str = typer.prompt(prompt, hide_input=True)
    return password
