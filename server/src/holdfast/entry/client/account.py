"""`holdfast login` and `logout`."""

import sys
from typing import Annotated

import typer

from holdfast.entry.client import connection
from holdfast.entry.client.connection import Api, Login, fail, read_password


def login(
    server: Annotated[str, typer.Option(help="Address of the service.")] = connection.DEFAULT_SERVER,
    username: Annotated[str, typer.Option(prompt=True, help="Who logs in.")] = "admin",
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input.")
    ] = False,
) -> None:
    """Log in to a running service; the login is kept in ~/.config/holdfast (0600)."""
    service = Api(server.rstrip("/"), None)
    password = read_password("Password", from_input=password_stdin)
    answer = service.post("/api/auth/login", data={"username": username, "password": password})
    if answer["totp_required"]:
        code = typer.prompt("Code of your second factor")
        challenge = {"login_challenge_token": answer["login_challenge_token"], "code": code}
        answer = service.post("/api/auth/login/totp", challenge)
    token = str(answer["access_token"])
    if answer["must_change_password"]:
        token = _change_password(Api(service.server, token), password)
    connection.save_login(Login(service.server, token))
    typer.echo(f"Logged in to {service.server} as {username}.")


def _change_password(service: Api, old: str) -> str:
    if not sys.stdin.isatty():
        fail("the password must be changed first; log in once on a terminal", connection.EXIT_NOT_ALLOWED)
    typer.echo("The password must be changed before anything else.")
    new = typer.prompt("New password", hide_input=True, confirmation_prompt=True)
    answer = service.post("/api/auth/change-password", {"current_password": old, "new_password": new})
    return str(answer["access_token"])


def logout() -> None:
    """End the session and forget the login."""
    saved = connection.saved_login()
    if saved is not None:
        Api(saved.server, saved.token).post("/api/auth/logout")
    connection.forget_login()
    typer.echo("Logged out.")
