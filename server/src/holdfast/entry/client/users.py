"""`holdfast users`: who may log in, and what they may do."""

from typing import Annotated, Any, Literal

import typer

from holdfast.entry.client import connection
from holdfast.entry.client.connection import read_secret
from holdfast.entry.client.groups import by_default, group_with_default, shown
from holdfast.entry.client.lookup import REPOSITORIES, USERS, Repository, find_repository
from holdfast.entry.client.output import AsJson, Yes, confirm, done, flag, report
from holdfast.entry.client.table import ID, Column, Fields, print_list, print_table
from holdfast.entry.client.units import when

users = group_with_default(
    "Users and their rights: list, create, change, disable; rights on repositories.",
    "holdfast users create anna --role operator",
    "holdfast users allow anna etc operator",
    "holdfast users disable anna",
)
RoleWord = Literal["viewer", "operator", "admin"]
RightWord = Literal["viewer", "operator"]
UserWord = Annotated[str, typer.Argument(help="Name or id of a user.")]
PasswordStdin = Annotated[bool, flag("--password-stdin", "Read the password from standard input.")]
OnAll = Annotated[RightWord | None, typer.Option("--all-repositories", help="Right on all repositories.")]
USER_NAME = Column("NAME", "username", elastic=True)


@by_default(users)
@users.command("list")
def list_users(as_json: AsJson = False) -> None:
    """List users."""
    USERS.print(
        (
            ID,
            USER_NAME,
            "ROLE",
            Column("ALL REPOSITORIES", "all_repositories_role"),
            Column("OTHER RIGHTS", lambda one: len(one["repositories"]), right=True),
            Column("STATE", _state),
            Column("LAST LOGIN", lambda one: when(one["last_login_at"])),
        ),
        as_json=as_json,
    )


def _state(user: dict[str, Any]) -> str:
    return "disabled" if user["disabled"] else "active"


@users.command("show")
def show_user(user: UserWord, as_json: AsJson = False) -> None:
    """Show one user and their rights."""
    found = USERS.show(user, _fields, as_json=as_json)
    if as_json:
        return
    names = {one["id"]: one["name"] for one in connection.api().get(REPOSITORIES.url)["repositories"]}
    name = Column("REPOSITORY", lambda one: names.get(one["repository_id"], one["repository_id"]), elastic=True)
    print_table((name, Column("RIGHT", "role")), found["repositories"])


def _fields(user: dict[str, Any]) -> Fields:
    return (
        "id",
        ("name", user["username"]),
        "email",
        "role",
        ("state", _state(user)),
        ("second factor", user["totp_enabled"]),
        ("on all repositories", user["all_repositories_role"] or "no rights"),
        ("last login", when(user["last_login_at"])),
    )


@users.command("create", epilog=shown("holdfast users create anna --role operator --all-repositories viewer"))
def create_user(
    username: Annotated[str, typer.Argument(help="Name to log in with.")],
    role: Annotated[RoleWord, typer.Option(help="Highest role of the user.")] = "viewer",
    all_repositories: OnAll = None,
    email: Annotated[str | None, typer.Option(help="Address of the user.")] = None,
    keep_password: Annotated[
        bool, flag("--keep-password", "Do not require a password change at the first login.")
    ] = False,
    password_stdin: PasswordStdin = False,
    no_password: Annotated[
        bool, flag("--no-password", "No password: the user chooses one with `holdfast users invite`.")
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
    answer = service.post(USERS.url, body)
    sees_none = answer["role"] != "admin" and not answer["all_repositories_role"]
    hints = [
        f"Create a link for choosing a password: holdfast users invite {answer['username']}" if no_password else "",
        f"This user cannot see any repository yet: holdfast users allow {answer['username']} REPOSITORY viewer"
        if sees_none
        else "",
    ]
    sentence = f"{answer['username']} was created as {answer['role']}."
    report(answer, sentence, as_json=as_json, hint="\n".join(filter(None, hints)))


@users.command("invite", epilog=shown("holdfast users invite anna", "holdfast users invite anna --hours 24"))
def invite_user(
    user: UserWord,
    hours: Annotated[int, typer.Option(min=1, max=720, help="Hours until the link expires.")] = 72,
    as_json: AsJson = False,
) -> None:
    """Print a one-time link with which a user chooses their own password."""
    service, found = USERS.chosen(user)
    made = service.post(f"{USERS.url_of(found)}/invitation", {"expires_in_hours": hours})
    hint = f"It works once, until {when(made['expires_at'])}. Share it only with {found['username']}."
    report(made, f"{service.server}{made['path']}", as_json=as_json, hint=hint)


@users.command("change")
def change_user(
    user: UserWord,
    role: Annotated[RoleWord | None, typer.Option(help="New role.")] = None,
    all_repositories: Annotated[
        Literal["viewer", "operator", "none"] | None, typer.Option(help="Right on all repositories.")
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
    USERS.change(user, body, "{username} was changed.", as_json=as_json)


@users.command("disable")
def disable_user(user: UserWord, yes: Yes = False, as_json: AsJson = False) -> None:
    """Disable a user: their sessions end immediately."""
    confirm(f"Disable {user}?", yes=yes)
    USERS.change(user, {"disabled": True}, "{username} is disabled.", as_json=as_json)


@users.command("enable")
def enable_user(user: UserWord, as_json: AsJson = False) -> None:
    """Enable a disabled user."""
    USERS.change(user, {"disabled": False}, "{username} is enabled.", as_json=as_json)


@users.command("reset-password")
def reset_password(
    user: UserWord,
    password_stdin: PasswordStdin = False,
    end_tokens: Annotated[bool, flag("--end-tokens", "Also revoke all account tokens of the user.")] = False,
    as_json: AsJson = False,
) -> None:
    """Set a new password for a user, which they must change; their sessions end."""
    password = read_secret(f"New password of {user}", from_input=password_stdin, repeat=True)
    body = {"password": password, "must_change_password": True, "end_tokens": end_tokens}
    USERS.change(user, body, "{username} has a new password.", as_json=as_json)


@users.command("allow")
def allow(
    user: UserWord,
    repository: Repository,
    role: Annotated[
        RightWord, typer.Argument(help="viewer can browse and download; operator can also back up and restore.")
    ],
    as_json: AsJson = False,
) -> None:
    """Give a user a right on a repository."""
    service, found = USERS.chosen(user)
    place = find_repository(service, repository)
    answer = service.put(f"{USERS.url_of(found)}/repositories/{place['id']}", {"role": role})
    report(answer, f"{found['username']} is {role} of {place['name']}.", as_json=as_json)


@users.command("forbid")
def forbid(user: UserWord, repository: Repository, as_json: AsJson = False) -> None:
    """Remove a user's right on a repository."""
    service, found = USERS.chosen(user)
    place = find_repository(service, repository)
    service.delete(f"{USERS.url_of(found)}/repositories/{place['id']}")
    sentence = f"{found['username']} no longer has a right of their own on {place['name']}."
    done(sentence, as_json=as_json, user_id=found["id"], repository_id=place["id"])


@users.command("access")
def access(
    repository: Repository,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of users.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List what each user may do with a repository, and why."""
    answer = REPOSITORIES.get(repository, "access", limit=limit)
    reason = Column("REASON", lambda one: one["reason"].replace("_", " "))
    columns = (Column("ID", "user_id", right=True), USER_NAME, Column("ROLE HERE", "role"), reason, "GLOBAL ROLE")
    more = f"Only the first {limit} users are shown; see --limit." if answer["next_cursor"] is not None else ""
    print_list(answer, "users", columns, as_json=as_json, note=more)


@users.command("remove")
def remove_user(user: UserWord, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove a user."""
    USERS.remove(user, "{username} was removed.", as_json=as_json, question="Remove {username}?", yes=yes)
