"""`holdfast login`, `logout` and `account`: who you are, your password and your tokens."""

import sys
from typing import Annotated, Any, Literal

import typer

from holdfast.entry.client import connection, exit_codes
from holdfast.entry.client.connection import Api, Login, read_secret
from holdfast.entry.client.groups import examples, group
from holdfast.entry.client.lookup import Collection
from holdfast.entry.client.output import AsJson, Yes, done, fail, flag, remark, report, say
from holdfast.entry.client.table import ID, NAME, Column, print_object
from holdfast.entry.client.units import when

account = group(
    "Your own account: show it, change its password, create and revoke tokens.",
    "holdfast account show",
    "holdfast account create-token monitoring",
)
TOKENS = Collection("/api/settings/tokens", "tokens", "token", "account tokens")


@examples(
    "holdfast login --server https://backup.example.com --username admin",
    "holdfast login --username admin --password-stdin < password-file",
)
def login(
    server: Annotated[
        str, typer.Option(envvar="HOLDFAST_SERVER", help="Address of the service.")
    ] = connection.DEFAULT_SERVER,
    username: Annotated[
        str | None, typer.Option(help="Name to log in with; prompts on a terminal (default: admin).")
    ] = None,
    password_stdin: Annotated[
        bool, flag("--password-stdin", "Read the password, and nothing else, from standard input.")
    ] = False,
    ca_file: Annotated[
        str | None,
        typer.Option(
            envvar="HOLDFAST_CA_FILE",
            help="CA certificate file (PEM) for verifying the service's certificate.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Log in to a service; the login is stored in ~/.config/holdfast (mode 0600)."""
    service = Api(server.rstrip("/"), None, ca_file)
    name = username or _ask_for_name(password_stdin)
    password = read_secret("Password", from_input=password_stdin or not sys.stdin.isatty())
    answer = service.post("/api/auth/login", data={"username": name, "password": password})
    if answer["totp_required"]:
        answer = _second_factor(service, answer)
    token = str(answer["access_token"])
    if answer["must_change_password"]:
        token = _change_password(Api(service.server, token, ca_file), password)
    connection.save_login(Login(service.server, token, ca_file))
    done(f"Logged in to {service.server} as {name}.", as_json=as_json, server=service.server, username=name)
    if not as_json:
        remark("Next: holdfast status")


def _ask_for_name(password_stdin: bool) -> str:
    if password_stdin or not sys.stdin.isatty():
        return "admin"
    return str(typer.prompt("Username", default="admin"))


def _second_factor(service: Api, answer: dict[str, Any]) -> dict[str, Any]:
    if not sys.stdin.isatty():
        fail("this user has a second factor; log in from a terminal.", exit_codes.NOT_ALLOWED)
    code = typer.prompt("Current six-digit code")
    challenge = {"login_challenge_token": answer["login_challenge_token"], "code": code}
    logged_in: dict[str, Any] = service.post("/api/auth/login/totp", challenge)
    return logged_in


def _change_password(service: Api, old: str) -> str:
    if not sys.stdin.isatty():
        fail("the password must be changed first; log in once from a terminal.", exit_codes.NOT_ALLOWED)
    say("The password must be changed before anything else.")
    new = typer.prompt("New password", hide_input=True, confirmation_prompt=True)
    answer = service.post("/api/auth/change-password", {"current_password": old, "new_password": new})
    return str(answer["access_token"])


def logout(as_json: AsJson = False) -> None:
    """End the session and delete the stored login."""
    saved = connection.saved_login()
    if saved is not None:
        Api(saved.server, saved.token, saved.ca_file).post("/api/auth/logout")
    connection.forget_login()
    done("Logged out.", as_json=as_json)


@account.command("show")
def show_account(as_json: AsJson = False) -> None:
    """Show who is logged in, and where."""
    service = connection.api()
    answer = service.get("/api/auth/me")
    print_object(
        answer,
        (
            ("user", answer["username"]),
            "role",
            ("on all repositories", answer["all_repositories_role"]),
            ("service", service.server),
            "credential",
            ("second factor", answer["totp_enabled"]),
            ("last login", when(answer["last_login_at"])),
        ),
        as_json=as_json,
    )


@account.command("password")
def change_password(
    password_stdin: Annotated[
        bool, flag("--password-stdin", "Read two lines from standard input: the old and the new password.")
    ] = False,
    end_tokens: Annotated[bool, flag("--end-tokens", "Also revoke all your account tokens.")] = False,
    as_json: AsJson = False,
) -> None:
    """Change your password; your other sessions end."""
    service = connection.api()
    old = read_secret("Current password", from_input=password_stdin)
    new = read_secret("New password", from_input=password_stdin, repeat=True)
    body = {"current_password": old, "new_password": new, "end_tokens": end_tokens}
    answer = service.post("/api/auth/change-password", body)
    saved = connection.saved_login()
    connection.save_login(Login(service.server, str(answer["access_token"]), saved.ca_file if saved else None))
    done("The password was changed; other sessions have ended.", as_json=as_json)


@account.command("tokens")
def list_tokens(as_json: AsJson = False) -> None:
    """List your tokens."""
    expires = Column("EXPIRES", lambda one: when(one["expires_at"]) if one["expires_at"] else "never")
    last_used = Column("LAST USED", lambda one: when(one["last_used_at"]))
    columns = (ID, NAME, "PREFIX", "SCOPE", expires, last_used)
    TOKENS.print(columns, as_json=as_json, empty="No tokens. Create one: holdfast account create-token NAME")


@account.command("create-token")
def create_token(
    name: Annotated[str, typer.Argument(help="What the token is for.")],
    scope: Annotated[
        Literal["read", "operate", "admin", "metrics"],
        typer.Option(help="What the token may change, limited by your own role; metrics: only reads /metrics."),
    ] = "read",
    expires_in: Annotated[int, typer.Option(min=1, max=3650, help="Days until the token expires.")] = 365,
    no_expiry: Annotated[bool, flag("--no-expiry", "It never expires.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create a token for a program; it is shown only once."""
    body = {"name": name, "scope": scope, "expires_in_days": None if no_expiry else expires_in}
    answer = connection.api().post(TOKENS.url, body)
    hint = "Save it now: it is not shown again. Use it as HOLDFAST_TOKEN. It cannot start jobs."
    report(answer, answer["token"], as_json=as_json, hint=hint)


@account.command("revoke-token")
def revoke_token(
    token: Annotated[str, typer.Argument(help="Name or id of the token.")], yes: Yes = False, as_json: AsJson = False
) -> None:
    """Revoke one of your tokens."""
    question, sentence = "Revoke the token {name}?", "The token {name} was revoked."
    TOKENS.remove(token, sentence, as_json=as_json, question=question, yes=yes)
