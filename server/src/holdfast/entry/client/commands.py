"""The verbs of `holdfast` that talk to a running service."""

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.entry.client import connection
from holdfast.entry.client.connection import EXIT_USAGE, Api, Login, fail, read_password
from holdfast.entry.client.follow import NoWait, after_start, exit_code, follow
from holdfast.entry.client.output import AsJson, print_json, print_table, size, when

Repository = Annotated[str, typer.Argument(help="Name, path or id of a repository.")]
OperationId = Annotated[int, typer.Argument(help="Id of an operation (job).")]

operations = typer.Typer(help="Look at operations: list, show, cancel, logs.", no_args_is_help=True)


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


def repos(as_json: AsJson = False) -> None:
    """List repositories."""
    answer = connection.api().get("/api/repositories/")
    if as_json:
        print_json(answer)
        return
    print_table(
        ("id", "name", "path", "archives", "stored", "last backup"),
        (
            (
                one["id"],
                one["name"],
                one["path"],
                one["archive_count"],
                size(one["unique_size"]),
                when(one["last_backup"]),
            )
            for one in answer["repositories"]
        ),
    )


def find_repository(service: Api, wanted: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = [
        one
        for one in service.get("/api/repositories/")["repositories"]
        if wanted in (one["name"], one["path"], str(one["id"]))
    ]
    if not found:
        fail(f"there is no repository called {wanted}", connection.EXIT_NOT_FOUND)
    return found[0]


def archives(repository: Repository, as_json: AsJson = False, limit: int = 50) -> None:
    """List the archives of a repository, newest first."""
    service = connection.api()
    found = find_repository(service, repository)
    answer = service.get(f"/api/repositories/{found['id']}/archives", limit=limit)
    if as_json:
        print_json(answer)
        return
    print_table(
        ("id", "name", "start", "files", "size"),
        (
            (one["id"], one["name"], when(one["start"]), one["nfiles"], size(one["original_size"]))
            for one in answer["archives"]
        ),
    )


def backup(repository: Repository, no_wait: NoWait = False, as_json: AsJson = False) -> None:
    """Back up a repository's sources now, and follow it."""
    service = connection.api()
    found = find_repository(service, repository)
    answer = service.post("/api/backup/start", {"repository": found["path"]})
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


def restore(
    repository: Repository,
    archive: Annotated[str, typer.Argument(help="Id or name of the archive, or `latest`.")],
    destination: Annotated[Path, typer.Argument(help="Folder on the service's machine to restore into.")],
    path: Annotated[
        list[str] | None, typer.Option("--path", help="What to restore; may be given several times.")
    ] = None,
    overwrite: Annotated[
        str, typer.Option(help="What to do with files that are there: skip, replace or fail.")
    ] = "skip",
    layout: Annotated[str, typer.Option(help="preserve_path or contents_only.")] = "preserve_path",
    dry_run: Annotated[bool, typer.Option(help="Read everything, write nothing.")] = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Restore an archive, or parts of it."""
    service = connection.api()
    found = find_repository(service, repository)
    body: dict[str, Any] = {
        "repository_id": found["id"],
        "paths": path or [],
        "destination": str(destination.absolute()),
        "overwrite": overwrite,
        "restore_layout": layout,
        "dry_run": dry_run,
        **_archive(service, found, archive),
    }
    after_start(service, service.post("/api/restore/start", body), no_wait=no_wait, as_json=as_json)


def _archive(service: Api, repository: dict[str, Any], wanted: str) -> dict[str, Any]:
    if wanted == "latest":
        newest = service.get(f"/api/repositories/{repository['id']}/archives", limit=1)["archives"]
        if not newest:
            fail("the repository has no archives", connection.EXIT_NOT_FOUND)
        return {"archive_id": newest[0]["id"]}
    return {"archive_id": int(wanted)} if wanted.isdigit() else {"archive": wanted}


def check(
    repository: Repository,
    verify_data: Annotated[bool, typer.Option(help="Also decrypt and verify all data.")] = False,
    max_duration: Annotated[int | None, typer.Option(help="Stop after so many seconds.")] = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Check a repository."""
    body = {"verify_data": verify_data, **({"max_duration": max_duration} if max_duration else {})}
    _maintain(repository, "check", body, no_wait=no_wait, as_json=as_json)


def compact(repository: Repository, no_wait: NoWait = False, as_json: AsJson = False) -> None:
    """Free the space of what was deleted."""
    _maintain(repository, "compact", {}, no_wait=no_wait, as_json=as_json)


def prune(
    repository: Repository,
    dry_run: Annotated[bool, typer.Option(help="Say what would be kept and removed; remove nothing.")] = False,
    keep_last: int | None = None,
    keep_hourly: int | None = None,
    keep_daily: int | None = None,
    keep_weekly: int | None = None,
    keep_monthly: int | None = None,
    keep_yearly: int | None = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Remove archives by the repository's retention, or by the rules given."""
    rules = {
        "keep_last": keep_last,
        "keep_hourly": keep_hourly,
        "keep_daily": keep_daily,
        "keep_weekly": keep_weekly,
        "keep_monthly": keep_monthly,
        "keep_yearly": keep_yearly,
    }
    body = {name: value for name, value in rules.items() if value is not None}
    if not dry_run:
        _maintain(repository, "prune", body, no_wait=no_wait, as_json=as_json)
        return
    service = connection.api()
    found = find_repository(service, repository)
    answer = service.post(f"/api/repositories/{found['id']}/prune", {**body, "dry_run": True})
    if as_json:
        print_json(answer)
        return
    result = answer["prune_result"]
    kept = [("keep", one["archive"], when(one["time"]), one["rule"]) for one in result["keep"]]
    gone = [("remove", one["archive"], when(one["time"]), None) for one in result["prune"]]
    print_table(("what", "archive", "time", "rule"), [*kept, *gone])


def _maintain(repository: str, verb: str, body: dict[str, Any], *, no_wait: bool, as_json: bool) -> None:
    service = connection.api()
    found = find_repository(service, repository)
    answer = service.post(f"/api/repositories/{found['id']}/{verb}", body)
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


def search(
    repository: Repository,
    text: Annotated[str, typer.Argument(help="Part of a name; of the whole path if it has a slash.")],
    deleted_only: Annotated[bool, typer.Option(help="Only what the newest archives lack.")] = False,
    limit: int = 50,
    as_json: AsJson = False,
) -> None:
    """Find files in all archives of a repository."""
    service = connection.api()
    found = find_repository(service, repository)
    answer = service.get(f"/api/repositories/{found['id']}/search", q=text, limit=limit, deleted_only=deleted_only)
    if as_json:
        print_json(answer)
        return
    print_table(
        ("path", "size", "modified", "archives", "in latest"),
        (
            (
                one["path"],
                size(one["size"]),
                when(one["mtime"]),
                one["archive_count"],
                "yes" if one["present_in_latest"] else "no",
            )
            for one in answer["results"]
        ),
    )


def activity(limit: int = 30, as_json: AsJson = False) -> None:
    """What happened lately."""
    answer = connection.api().get("/api/activity/recent", limit=limit)
    if as_json:
        print_json(answer)
        return
    _print_operations(answer)


def logs(
    operation_id: OperationId,
    follow_on: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the operation has ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the log of an operation."""
    _print_logs(connection.api(), operation_id, follow_on=follow_on, as_json=as_json)


@operations.command("list")
def list_operations(
    status: Annotated[list[str] | None, typer.Option(help="Only this status; may be given several times.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="Only this kind; may be given several times.")] = None,
    limit: int = 30,
    as_json: AsJson = False,
) -> None:
    """List operations, newest first."""
    answer = connection.api().get("/api/operations/", status=status, kind=kind, limit=limit)
    if as_json:
        print_json(answer)
        return
    _print_operations(answer["items"])


@operations.command("show")
def show_operation(operation_id: OperationId, as_json: AsJson = False) -> None:
    """Show one operation."""
    answer = connection.api().get(f"/api/operations/{operation_id}")
    if as_json:
        print_json(answer)
        return
    shown = (
        "kind status repository triggered_by created_at started_at completed_at duration_seconds attempt archive_name "
        "queued_reason queued_behind_id error_key error_message"
    )
    print_table(("field", "value"), ((name, answer[name]) for name in shown.split() if answer[name] is not None))


@operations.command("cancel")
def cancel_operation(operation_id: OperationId, as_json: AsJson = False) -> None:
    """Ask an operation to stop."""
    answer = connection.api().post(f"/api/operations/{operation_id}/cancel")
    if as_json:
        print_json(answer)
    else:
        typer.echo(f"{answer['status']}: {answer['message']}")


@operations.command("follow")
def follow_operation(operation_id: OperationId, as_json: AsJson = False) -> None:
    """Wait for an operation's end; the exit code says how it ended."""
    operation = follow(connection.api(), operation_id, quiet=as_json)
    if as_json:
        print_json(operation)
    raise typer.Exit(exit_code(operation["status"]))


@operations.command("logs")
def operation_logs(
    operation_id: OperationId,
    follow_on: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the operation has ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the log of an operation."""
    _print_logs(connection.api(), operation_id, follow_on=follow_on, as_json=as_json)


def _print_operations(items: list[dict[str, Any]]) -> None:
    print_table(
        ("id", "kind", "status", "repository", "started", "seconds", "error"),
        (
            (
                one["id"],
                one["kind"],
                one["status"],
                one["repository"],
                when(one["started_at"]),
                one["duration_seconds"],
                one["error_key"],
            )
            for one in items
        ),
    )


def _print_logs(service: Api, operation_id: int, *, follow_on: bool, as_json: bool) -> None:
    if follow_on and as_json:
        fail("--follow prints lines; it does not go with --json", EXIT_USAGE)
    offset = 0
    while True:
        page = service.get(f"/api/operations/{operation_id}/logs", offset=offset, limit=5000)
        if as_json:
            print_json(page)
            return
        for line in page["lines"]:
            typer.echo(line["content"])
        offset = page["total_lines"]
        if page["has_more"]:
            continue
        if not follow_on or page["status"] not in ("pending", "running"):
            return
        time.sleep(0.5)
