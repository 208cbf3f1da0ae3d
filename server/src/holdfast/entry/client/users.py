"""`holdfast users`: who may log in, and what they may do."""

from typing import Annotated, Any, Literal

import typer

from holdfast.entry.client import connection
from holdfast.entry.client.connection import Api, read_secret
from holdfast.entry.client.groups import group, shown
from holdfast.entry.client.lookup import Repository, find_repository, named
from holdfast.entry.client.output import (
    AsJson,
    Column,
    Yes,
    confirm,
    done,
    print_fields,
    print_json,
    print_table,
    remark,
    say,
)
from holdfast.entry.client.units import when

users = group(
    "Users and their rights: list, create, change, disable; rights on repositories.",
    "holdfast users create anna --role operator",
    "holdfast users allow anna etc operator",
    "holdfast users disable anna",
    no_args_is_help=False,
    invoke_without_command=True,
)
RoleWord = Literal["viewer", "operator", "admin"]
RightWord = Literal["viewer", "operator"]
UserWord = Annotated[str, typer.Argument(help="Name or id of a user.")]
PasswordStdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")]
OnAll = Annotated[RightWord | None, typer.Option("--all-repositories", help="Right on every repository.")]


@users.callback()
def default(context: typer.Context, as_json: AsJson = False) -> None:
    if context.invoked_subcommand is None:
        list_users(as_json=as_json)


@users.command("list")
def list_users(as_json: AsJson = False) -> None:
    """List users."""
    answer = connection.api().get("/api/users")
    if as_json:
        print_json(answer)
        return
    print_table(
        (
            Column("ID", right=True),
            Column("NAME", elastic=True),
            "ROLE",
            "ALL REPOSITORIES",
            Column("OTHER RIGHTS", right=True),
            "STATE",
            "LAST LOGIN",
        ),
        (
            (
                one["id"],
                one["username"],
                one["role"],
                one["all_repositories_role"],
                len(one["repositories"]),
                "disabled" if one["disabled"] else "active",
                when(one["last_login_at"]),
            )
            for one in answer["users"]
        ),
    )


@users.command("show")
def show_user(user: UserWord, as_json: AsJson = False) -> None:
    """Show one user and their rights."""
    service = connection.api()
    found = _find(service, user)
    if as_json:
        print_json(found)
        return
    print_fields(
        (
            ("id", found["id"]),
            ("name", found["username"]),
            ("email", found["email"]),
            ("role", found["role"]),
            ("state", "disabled" if found["disabled"] else "active"),
            ("second factor", found["totp_enabled"]),
            ("on all repositories", found["all_repositories_role"] or "no rights"),
            ("last login", when(found["last_login_at"])),
        )
    )
    names = {one["id"]: one["name"] for one in service.get("/api/repositories/")["repositories"]}
    print_table(
        (Column("REPOSITORY", elastic=True), "RIGHT"),
        ((names.get(one["repository_id"], one["repository_id"]), one["role"]) for one in found["repositories"]),
    )


@users.command("create", epilog=shown("holdfast users create anna --role operator --all-repositories viewer"))
def create_user(
    username: Annotated[str, typer.Argument(help="Name to log in with.")],
    role: Annotated[RoleWord, typer.Option(help="Highest role of the user.")] = "viewer",
    all_repositories: OnAll = None,
    email: Annotated[str | None, typer.Option(help="Address of the user.")] = None,
    keep_password: Annotated[
        bool, typer.Option("--keep-password", help="The password need not be changed at the first login.")
    ] = False,
    password_stdin: PasswordStdin = False,
    no_password: Annotated[
        bool, typer.Option("--no-password", help="No password: they choose one by `holdfast users invite`.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create a user. Prompts for the password, which must be changed at the first login."""
    service = connection.api()
    body: dict[str, Any] = {"username": username, "role": role, "must_change_password": not keep_password}
    body |= {"email": email} if email else {}
    body |= {"all_repositories_role": all_repositories} if all_repositories else {}
    if not no_password:
        body["password"] = read_secret(f"Password of {username}", from_input=password_stdin, repeat=True)
    answer = service.post("/api/users", body)
    if as_json:
        print_json(answer)
        return
    say(f"{answer['username']} was created as {answer['role']}.")
    if no_password:
        remark(f"They choose a password by a link: holdfast users invite {answer['username']}")
    if answer["role"] != "admin" and not answer["all_repositories_role"]:
        remark(f"They see no repository yet: holdfast users allow {answer['username']} REPOSITORY viewer")


@users.command("invite", epilog=shown("holdfast users invite anna", "holdfast users invite anna --hours 24"))
def invite_user(
    user: UserWord,
    hours: Annotated[int, typer.Option(min=1, max=720, help="How long the link is valid.")] = 72,
    as_json: AsJson = False,
) -> None:
    """Print a link with which a user chooses their own password, once."""
    service = connection.api()
    found = _find(service, user)
    made = service.post(f"/api/users/{found['id']}/invitation", {"expires_in_hours": hours})
    if as_json:
        print_json(made)
        return
    say(f"{service.server}{made['path']}")
    remark(f"It works once, until {when(made['expires_at'])}. Give it to {found['username']} and nobody else.")


@users.command("change")
def change_user(
    user: UserWord,
    role: Annotated[RoleWord | None, typer.Option(help="New role.")] = None,
    all_repositories: Annotated[
        Literal["viewer", "operator", "none"] | None, typer.Option(help="Right on every repository.")
    ] = None,
    email: Annotated[str | None, typer.Option(help="New address.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a user's role, rights or address."""
    body: dict[str, Any] = {"role": role} if role else {}
    body |= (
        {"all_repositories_role": None if all_repositories == "none" else all_repositories} if all_repositories else {}
    )
    body |= {"email": email} if email else {}
    _change(user, body, "was changed", as_json=as_json)


@users.command("disable")
def disable_user(user: UserWord, yes: Yes = False, as_json: AsJson = False) -> None:
    """Disable a user: their sessions end immediately."""
    confirm(f"Disable {user}?", yes=yes)
    _change(user, {"disabled": True}, "is disabled", as_json=as_json)


@users.command("enable")
def enable_user(user: UserWord, as_json: AsJson = False) -> None:
    """Enable a disabled user."""
    _change(user, {"disabled": False}, "is enabled", as_json=as_json)


@users.command("reset-password")
def reset_password(user: UserWord, password_stdin: PasswordStdin = False, as_json: AsJson = False) -> None:
    """Give a user another password, which they must change; their sessions end."""
    password = read_secret(f"New password of {user}", from_input=password_stdin, repeat=True)
    _change(user, {"password": password, "must_change_password": True}, "has a new password", as_json=as_json)


@users.command("allow")
def allow(
    user: UserWord,
    repository: Repository,
    role: Annotated[RightWord, typer.Argument(help="viewer sees and downloads; operator also backs up and restores.")],
    as_json: AsJson = False,
) -> None:
    """Give a user a right on a repository."""
    service = connection.api()
    found, place = _find(service, user), find_repository(service, repository)
    answer = service.put(f"/api/users/{found['id']}/repositories/{place['id']}", {"role": role})
    if as_json:
        print_json(answer)
    else:
        say(f"{found['username']} is {role} of {place['name']}.")


@users.command("forbid")
def forbid(user: UserWord, repository: Repository, as_json: AsJson = False) -> None:
    """Take a user's right on a repository away."""
    service = connection.api()
    found, place = _find(service, user), find_repository(service, repository)
    service.delete(f"/api/users/{found['id']}/repositories/{place['id']}")
    sentence = f"{found['username']} no longer has a right of their own on {place['name']}."
    done(sentence, as_json=as_json, user_id=found["id"], repository_id=place["id"])


@users.command("access")
def access(
    repository: Repository,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Show at most this many users.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List what each user may do with a repository, and why."""
    service = connection.api()
    place = find_repository(service, repository)
    answer = service.get(f"/api/repositories/{place['id']}/access", limit=limit)
    if as_json:
        print_json(answer)
        return
    print_table(
        (Column("ID", right=True), Column("NAME", elastic=True), "ROLE HERE", "REASON", "GLOBAL ROLE"),
        (
            (one["user_id"], one["username"], one["role"], one["reason"].replace("_", " "), one["global_role"])
            for one in answer["users"]
        ),
    )
    if answer["next_cursor"] is not None:
        remark(f"There are more than these {limit} users; use --limit.")


@users.command("remove")
def remove_user(user: UserWord, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove a user."""
    service = connection.api()
    found = _find(service, user)
    confirm(f"Remove {found['username']}?", yes=yes)
    service.delete(f"/api/users/{found['id']}")
    done(f"{found['username']} was removed.", as_json=as_json, id=found["id"])


def _change(user: str, body: dict[str, Any], done: str, *, as_json: bool) -> None:
    service = connection.api()
    answer = service.put(f"/api/users/{_find(service, user)['id']}", body)
    if as_json:
        print_json(answer)
    else:
        say(f"{answer['username']} {done}.")


def _find(service: Api, wanted: str) -> dict[str, Any]:
    return named(service.get("/api/users")["users"], wanted, "user", "username", see="users")
