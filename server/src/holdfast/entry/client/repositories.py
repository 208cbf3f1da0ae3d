"""`holdfast repos`: repositories and their setup."""

from typing import Annotated, Any, Literal

import typer

from holdfast.entry.client import connection, retention_rules
from holdfast.entry.client.connection import Api, read_secret
from holdfast.entry.client.follow import until_ended
from holdfast.entry.client.groups import by_default, group_with_default, shown
from holdfast.entry.client.lookup import MACHINES, REPOSITORIES, SSH_MACHINES, Repository, given
from holdfast.entry.client.option_groups import NOTHING, Given, with_options
from holdfast.entry.client.output import AsJson, Yes, confirm, flag, print_json, remark, report, say
from holdfast.entry.client.table import ID, NAME, Column, print_fields, print_table
from holdfast.entry.client.units import age, count, size, when

MISSING_SHOWN = 20
PASSPHRASE = "HOLDFAST_PASSPHRASE"  # noqa: S105 - the name of a variable
repositories = group_with_default(
    "Repositories: list, show, create, import, change, forget.",
    "holdfast repos",
    "holdfast repos create etc /srv/backup/etc --source /etc",
    "holdfast repos import old /srv/backup/old --passphrase-stdin < passphrase",
    "holdfast repos change etc --source /etc --source /usr/local/etc",
)

Name = Annotated[str, typer.Argument(help="Name of the repository.")]
Place = Annotated[str, typer.Argument(help="Location: a folder, or ssh://user@host/path.")]
Engine = Annotated[int, typer.Option("--engine", min=1, max=2, help="Major version of the engine.")]
Sources = Annotated[
    list[str] | None, typer.Option("--source", metavar="PATH", help="Path to back up; may be given several times.")
]
Excludes = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="PATTERN", help="Pattern to exclude; may be given several times."),
]
Compression = Annotated[str | None, typer.Option(help="Compression, such as lz4 or zstd,3 (default: lz4).")]
Template = Annotated[
    str | None, typer.Option("--archive-name", help="Template of archive names (default: {repository}-{now}).")
]
IndexMode = Annotated[
    Literal["full", "archives", "off"] | None, typer.Option(help="How much of each archive to index (default: full).")
]
UploadLimit = Annotated[int | None, typer.Option("--upload-limit", min=1, help="Upload limit in KiB per second.")]
PassphraseStdin = Annotated[
    bool, flag("--passphrase-stdin", f"Read the passphrase from standard input (or set {PASSPHRASE}).")
]
Machine = Annotated[
    str | None,
    typer.Option(
        "--machine", help="Machine whose files are backed up: an agent or ssh machine (default: this service's)."
    ),
]
FILES = {
    "source_paths": Sources,
    "exclude_patterns": Excludes,
    "own_places_confirmed": Annotated[
        bool | None,
        typer.Option(
            "--own-places-confirmed",
            help="Back up the service's own data, too: its secrets are then in the archives.",
        ),
    ],
}
STORING = {"compression": Compression, "archive_name_template": Template, "upload_ratelimit_kib": UploadLimit}
RemotePath = Annotated[str | None, typer.Option(help="The engine's program on the host of an ssh:// repository.")]
PassphraseOnAgent = Annotated[
    bool, flag("--passphrase-on-agent", "The passphrase is stored on the agent's machine, not by the service.")
]


@by_default(repositories)
@repositories.command("list")
def list_repositories(as_json: AsJson = False) -> None:
    """List repositories and the state of their backups."""
    service = connection.api()
    answer = service.get(REPOSITORIES.url)
    if as_json:
        print_json(answer)
        return
    health = {one["repository_id"]: one for one in service.get("/api/activity/status")["repositories"]}
    print_table(
        (
            ID,
            NAME,
            Column("PATH", elastic=True),
            Column("ARCHIVES", "archive_count", right=True),
            Column("STORED", lambda one: size(one["unique_size"]), right=True),
            Column("LAST BACKUP", lambda one: age(one["last_backup"]) if one["last_backup"] else "never"),
            Column("HEALTH", lambda one: health[one["id"]]["summary"] if one["id"] in health else None, elastic=True),
        ),
        answer["repositories"],
        empty="No repositories. Create one: holdfast repos create NAME PATH --source FOLDER",
    )


@repositories.command("show")
def show_repository(repository: Repository, as_json: AsJson = False) -> None:
    """Show one repository: its settings and its current state."""
    service, listed = REPOSITORIES.chosen(repository)
    found = service.get(REPOSITORIES.url_of(listed))
    if as_json:
        print_json(found)
        return
    print_repository(found)
    cells = service.get(f"{REPOSITORIES.url_of(found)}/status")["cells"]
    last = Column("LAST", lambda one: when(one["completed_at"]))
    print_table((Column("WHAT", "cell"), "STATUS", last, "OVERDUE"), cells)


def print_repository(found: dict[str, Any]) -> None:
    kept = [f"{name.removeprefix('keep_')} {value}" for name, value in found["retention"].items() if value is not None]
    print_fields(
        found,
        (
            "id",
            "name",
            "path",
            ("engine", found["engine_version"]),
            ("runs on", found["execution_target"]),
            "encryption",
            "compression",
            ("sources", found["source_paths"]),
            ("excludes", found["exclude_patterns"]),
            ("archive names", found["archive_name_template"]),
            ("keep", kept),
            ("index", found["index_mode"]),
            "mode",
            ("setup", found["setup_state"]),
            ("archives", found["archive_count"]),
            ("in archives", size(found["total_size"])),
            ("stored", size(found["unique_size"])),
            ("last backup", when(found["last_backup"]) if found["last_backup"] else "never"),
        ),
    )


@repositories.command("create", epilog=shown("holdfast repos create etc /srv/backup/etc --source /etc --keep-daily 7"))
@with_options(files=FILES, storing=STORING, rules=retention_rules.OPTIONS)
def create_repository(
    name: Name,
    path: Place,
    files: Given = NOTHING,
    encryption: Annotated[
        str | None,
        typer.Option(help="Encryption mode (default: repokey-blake2, engine 2: aes256-ocb); `none` for no encryption."),
    ] = None,
    passphrase_stdin: PassphraseStdin = False,
    passphrase_on_agent: PassphraseOnAgent = False,
    engine: Engine = 1,
    machine: Machine = None,
    remote_path: RemotePath = None,
    storing: Given = NOTHING,
    index_mode: IndexMode = None,
    rules: Given = NOTHING,
    as_json: AsJson = False,
) -> None:
    """Create a repository. Prompts for the passphrase unless it is piped in or encryption is `none`."""
    service = connection.api()
    chosen = encryption or ("repokey-blake2" if engine == 1 else "aes256-ocb")
    body = _new(service, name, path, engine, machine, remote_path, passphrase_on_agent=passphrase_on_agent)
    body |= {**files, **storing, **given(index_mode=index_mode)}
    body |= {"encryption": chosen}
    body["retention"] = dict(rules)
    if chosen != "none" and not passphrase_on_agent:
        body["passphrase"] = read_secret(
            "Passphrase of the new repository", from_input=passphrase_stdin, variable=PASSPHRASE, repeat=True
        )
    _registered(service, service.post(REPOSITORIES.url, body), "created", as_json=as_json)


@repositories.command(
    "import", epilog=shown("holdfast repos import old /srv/backup/old --passphrase-stdin < passphrase")
)
@with_options(files=FILES, storing=STORING)
def import_repository(
    name: Name,
    path: Place,
    files: Given = NOTHING,
    passphrase_stdin: PassphraseStdin = False,
    passphrase_on_agent: PassphraseOnAgent = False,
    no_passphrase: Annotated[bool, flag("--no-passphrase", "The repository has no passphrase.")] = False,
    keyfile: Annotated[
        typer.FileText | None, typer.Option(help="File with the exported key, for keyfile modes.")
    ] = None,
    engine: Engine = 1,
    machine: Machine = None,
    remote_path: RemotePath = None,
    storing: Given = NOTHING,
    index_mode: IndexMode = None,
    observe: Annotated[bool, flag("--observe", "Observe only: never write to it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Import an existing repository; its archives are indexed."""
    service = connection.api()
    body = _new(service, name, path, engine, machine, remote_path, passphrase_on_agent=passphrase_on_agent)
    body |= {**files, **storing, **given(index_mode=index_mode)}
    body |= {"mode": "observe"} if observe else {}
    body |= {"keyfile": keyfile.read()} if keyfile else {}
    if not no_passphrase and not passphrase_on_agent:
        body["passphrase"] = read_secret("Passphrase", from_input=passphrase_stdin, variable=PASSPHRASE)
    _registered(service, service.post("/api/repositories/import", body), "imported", as_json=as_json)


@repositories.command("change", epilog=shown("holdfast repos change etc --source /etc --exclude '*.tmp'"))
@with_options(files=FILES, storing=STORING)
def change_repository(
    repository: Repository,
    name: Annotated[str | None, typer.Option(help="New name.")] = None,
    path: Annotated[str | None, typer.Option(help="Where the repository was moved to.")] = None,
    files: Given = NOTHING,
    no_excludes: Annotated[bool, flag("--no-excludes", "Remove all excludes.")] = False,
    storing: Given = NOTHING,
    no_upload_limit: Annotated[bool, flag("--no-upload-limit", "Lift the upload limit.")] = False,
    index_mode: IndexMode = None,
    mode: Annotated[Literal["full", "observe"] | None, typer.Option(help="`observe` never writes to it.")] = None,
    remote_path: RemotePath = None,
    passphrase: Annotated[bool, flag("--passphrase", "Prompt for the passphrase to use from now on.")] = False,
    passphrase_stdin: PassphraseStdin = False,
    as_json: AsJson = False,
) -> None:
    """Change settings of a repository; the others stay unchanged. Sources and excludes replace the old ones."""
    service, found = REPOSITORIES.chosen(repository)
    body = {**files, **storing}
    body |= given(index_mode=index_mode, name=name, path=path, mode=mode, remote_path=remote_path)
    body |= {"exclude_patterns": []} if no_excludes else {}
    body |= {"upload_ratelimit_kib": None} if no_upload_limit else {}
    if passphrase or passphrase_stdin:
        body["passphrase"] = read_secret("Passphrase", from_input=passphrase_stdin, variable=PASSPHRASE)
    answer = service.put(REPOSITORIES.url_of(found), body)
    if as_json:
        print_json(answer)
    elif not body:
        remark("Nothing was changed: specify at least one setting. See: holdfast repos change --help")
    else:
        say(f"{answer['name']}: changed {', '.join(sorted(body)).replace('_', ' ')}.")


@repositories.command("forget")
def forget_repository(repository: Repository, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove a repository and its index from the service. Its data is kept."""
    question = "Forget {name}? Its data in {path} is kept."
    sentence = "{name} was forgotten; its data is still in {path}."
    REPOSITORIES.remove(repository, sentence, as_json=as_json, question=question, yes=yes)


@repositories.command("export-key")
def export_key(repository: Repository, as_json: AsJson = False) -> None:
    """Print a repository's key, so that you can keep it in a safe place (admins; audited)."""
    answer = REPOSITORIES.get(repository, "key")
    report(answer, answer["key"].rstrip("\n"), as_json=as_json)


@repositories.command("break-lock")
def break_lock(repository: Repository, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove a lock that a dead program left in a repository."""
    service, found = REPOSITORIES.chosen(repository)
    confirm(f"Break the lock of {found['name']}? Do so only if no other program is using it.", yes=yes)
    _act(service, found, "break-lock", as_json=as_json)


@repositories.command("confirm-relocation")
def confirm_relocation(repository: Repository, yes: Yes = False, as_json: AsJson = False) -> None:
    """Confirm that a repository was moved on purpose."""
    service, found = REPOSITORIES.chosen(repository)
    confirm(f"Was {found['name']} moved to {found['path']} on purpose?", yes=yes)
    _act(service, found, "confirm-relocation", as_json=as_json)


@repositories.command("confirm-older")
def confirm_older(repository: Repository, yes: Yes = False, as_json: AsJson = False) -> None:
    """Confirm that an older copy of a repository was restored, after showing which archives it lacks."""
    service, found = REPOSITORIES.chosen(repository)
    place = f"{REPOSITORIES.url_of(found)}/confirm-older"
    if not yes:
        lacking = service.post(place, {"dry_run": True})
        remark(f"The repository lacks {count(lacking['missing_count'], 'archive')} recorded in the index.")
        for one in lacking["missing"][:MISSING_SHOWN]:
            remark(f"  {one['name']}")
    confirm(f"Use the older state of {found['name']}? Missing archives stay listed as lost.", yes=yes)
    answer = service.post(place, {"dry_run": False})
    report(
        answer,
        f"The older state of {found['name']} is now in use; missing archives stay listed as lost.",
        as_json=as_json,
    )


@repositories.command("accept-replacement")
def accept_replacement(
    repository: Repository, passphrase_stdin: PassphraseStdin = False, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Accept a different repository at the path and use it from now on."""
    service, found = REPOSITORIES.chosen(repository)
    confirm(f"Use the other repository at {found['path']} as {found['name']} from now on?", yes=yes)
    body = {"passphrase": read_secret("Passphrase", from_input=True)} if passphrase_stdin else {}
    _act(service, found, "accept-replacement", body, as_json=as_json)


@repositories.command("setup")
def set_up_again(repository: Repository, as_json: AsJson = False) -> None:
    """Retry the setup of an agent's repository after it failed or was cancelled."""
    service, found = REPOSITORIES.chosen(repository)
    answer = service.post(f"{REPOSITORIES.url_of(found)}/setup")
    _registered(service, answer, "set up", as_json=as_json)


def _act(
    service: Api, repository: dict[str, Any], verb: str, body: dict[str, Any] | None = None, *, as_json: bool
) -> None:
    answer = service.post(f"{REPOSITORIES.url_of(repository)}/{verb}", body)
    report(answer, answer["message"], as_json=as_json)


def _new(
    service: Api,
    name: str,
    path: str,
    engine: int,
    machine: str | None,
    remote_path: str | None,
    *,
    passphrase_on_agent: bool,
) -> dict[str, Any]:
    """Request fields that new and imported repositories share."""
    body: dict[str, Any] = {"name": name, "path": path, "engine_version": engine}
    body |= {"remote_path": remote_path} if remote_path else {}
    body |= {"passphrase_location": "agent"} if passphrase_on_agent else {}
    body |= {"repository_type": "ssh"} if path.startswith("ssh://") else {}
    return body | (_target(service, machine) if machine else {})


def _target(service: Api, wanted: str) -> dict[str, Any]:
    """The request fields for the machine, given by name, on which a repository's engine runs."""
    machine = MACHINES.find(service, wanted)
    if machine["connection_type"] == "agent":
        return {"execution_target": "agent", "agent_machine_id": machine["id"]}
    return {"execution_target": "ssh", "ssh_connection_id": SSH_MACHINES.find(service, machine["name"])["id"]}


def _registered(service: Api, answer: dict[str, Any], how: str, *, as_json: bool) -> None:
    if answer["setup_operation_id"] is not None and not as_json:
        remark("Waiting for the agent to set it up.")
        until_ended(service, answer["setup_operation_id"], quiet=False)
        answer = service.get(REPOSITORIES.url_of(answer))
    if as_json:
        print_json(answer)
        return
    say(f"{answer['name']} was {how} (id {answer['id']}, {answer['path']}).")
    if answer["setup_state"] not in ("ready", "pending"):
        remark(f"Its set-up failed: holdfast ops show {answer['setup_operation_id']}")
    elif answer["source_paths"]:
        remark(f"Next: holdfast backup {answer['name']}")
    else:
        remark(f"It has no sources yet: holdfast repos change {answer['name']} --source FOLDER")
