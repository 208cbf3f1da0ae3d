"""Requests become command lines of engine 2, one row each."""

from collections.abc import Callable

import pytest

from backup_engine.borg2.init import ENCRYPTION_MODES
from backup_engine.command import Command, Secret
from backup_engine.detect import EngineProgram, EngineUnsupported
from backup_engine.environment import EngineEnvironment
from backup_engine.interface import Engine, engine_for
from backup_engine.requests import (
    BreakLockRequest,
    CheckRequest,
    CompactRequest,
    CreateRequest,
    DeleteArchiveRequest,
    DiffRequest,
    ExportTarRequest,
    ExtractRequest,
    InfoRequest,
    InitRequest,
    InvalidRequest,
    KeyExportRequest,
    ListArchivesRequest,
    ListFilesRequest,
    PruneRequest,
    RcloneAccess,
    RepositoryLocation,
    RetentionPolicy,
    UndeleteArchiveRequest,
)

HERE = RepositoryLocation("/backups/r", "secret words")
ID = "0123456789abcdef" * 4
AID = f"aid:{ID}"


def engine(version: str = "2.0.0b23") -> Engine:
    program = EngineProgram("/usr/bin/borg2", version, (2, 0, 0), 2)
    return engine_for(program, EngineEnvironment("/var/lib/engine", "1@host"), 5)


def line(command: Command) -> str:
    return " ".join(command.argv[1:])


def prune(**options: object) -> PruneRequest:
    return PruneRequest(RetentionPolicy(**options))  # type: ignore[arg-type]


QUIET = "--log-json --lock-wait 5 -r /backups/r"
TELLING = "--log-json --progress --lock-wait 5 -r /backups/r"
THOROUGH = "--log-json --progress --info --lock-wait 5 -r /backups/r"
ROWS: tuple[tuple[Callable[[Engine], Command], str], ...] = (
    (
        lambda e: e.init(HERE, InitRequest("aes256-ocb")),
        f"{QUIET} repo-create --encryption=aes256-ocb --id-hash=sha256 --key-location=repokey",
    ),
    (
        lambda e: e.init(HERE, InitRequest("keyfile-chacha20-poly1305-blake3")),
        f"{QUIET} repo-create --encryption=chacha20-poly1305 --id-hash=blake3 --key-location=keyfile",
    ),
    (
        lambda e: e.init(RepositoryLocation("/backups/r"), InitRequest("none")),
        f"{QUIET} repo-create --encryption=none-sha256",
    ),
    (
        lambda e: e.create(
            HERE,
            CreateRequest(
                "series",
                ("/home", "/etc"),
                exclude_patterns=("*.tmp",),
                compression="zstd,3",
                comment="holdfast:{1}",
                custom_flags=("--one-file-system", "--files-cache", "mtime,size"),
                list_files=True,
            ),
        ),
        (
            f"{TELLING} create --json --list --filter=AMCE --compression=zstd,3 --comment=holdfast:{{{{1}}}}"
            " --exclude=*.tmp --one-file-system --files-cache=mtime,size -- series /home /etc"
        ),
    ),
    (
        lambda e: e.create(HERE, CreateRequest("s-{now:%Y}", ("/x",))),
        f"{TELLING} create --json -- s-{{now:%Y}} /x",
    ),
    (
        lambda e: e.list_archives(HERE, ListArchivesRequest(last=2, consider_checkpoints=True)),
        (
            f"{QUIET} repo-list --json --format={{archive}}{{id}}{{comment}}{{hostname}}{{username}}{{start}}{{end}} "
            "--last=2"
        ),
    ),
    (
        lambda e: e.list_archives(HERE, ListArchivesRequest(deleted=True)),
        (
            f"{QUIET} repo-list --json --format={{archive}}{{id}}{{comment}}{{hostname}}{{username}}{{start}}{{end}} "
            "--deleted"
        ),
    ),
    (lambda e: e.info(HERE, InfoRequest()), f"{QUIET} repo-info --json"),
    (lambda e: e.info(HERE, InfoRequest(AID)), f"{QUIET} info --json -- {AID}"),
    (lambda e: e.info(HERE, InfoRequest("sh:* {1}")), f"{QUIET} info --json -- name:id:sh:* {{{{1}}}}"),
    (lambda e: e.delete_archive(HERE, DeleteArchiveRequest(AID)), f"{THOROUGH} delete -- {AID}"),
    (
        lambda e: e.undelete_archive(HERE, UndeleteArchiveRequest(AID)),
        f"--log-json --info --lock-wait 5 -r /backups/r undelete -- {AID}",
    ),
    (lambda e: e.break_lock(HERE, BreakLockRequest()), f"{QUIET} break-lock"),
    (lambda e: e.key_export(HERE, KeyExportRequest()), f"{QUIET} key export"),
    (
        lambda e: e.prune(HERE, PruneRequest(RetentionPolicy(keep_last=3, keep_quarterly=1), glob="a*", dry_run=True)),
        (
            "--log-json --info --lock-wait 5 -r /backups/r prune --list --dry-run --keep=3 --keep-3monthly=1"
            " --match-archives=sh:a*"
        ),
    ),
    (
        lambda e: e.prune(HERE, prune(keep_daily=7)),
        "--log-json --info --progress --lock-wait 5 -r /backups/r prune --list --keep-daily=7",
    ),
    (lambda e: e.compact(HERE, CompactRequest(0)), f"{THOROUGH} compact --stats --threshold=0"),
    (
        lambda e: e.check(HERE, CheckRequest(max_duration=60)),
        f"{THOROUGH} check --repository-only --max-duration=60",
    ),
    (
        lambda e: e.check(HERE, CheckRequest(verify_data=True, repair=True)),
        f"{THOROUGH} check --verify-data --repair",
    ),
    (
        lambda e: e.extract(
            HERE,
            ExtractRequest(AID, ("/home/x",), destination="/t", excluded_paths=("home/x/l",), sparse=True),
        ),
        f"{TELLING} extract --sparse --exclude=pf:home/x/l -- {AID} pp:home/x",
    ),
    (
        lambda e: e.extract(HERE, ExtractRequest(AID, ("f",), stdout=True)),
        f"{QUIET} extract --stdout -- {AID} pp:f",
    ),
    (
        lambda e: e.export_tar(HERE, ExportTarRequest(AID, ("home",), strip_components=1)),
        f"{QUIET} export-tar --strip-components=1 -- {AID} - pp:home",
    ),
    (
        lambda e: e.list_files(HERE, ListFilesRequest(AID, excludes=("*.o",), paths=("home",))),
        f"{QUIET} list --json-lines --format={{size}}{{mtime}}{{fingerprint}} --exclude=*.o -- {AID} pp:home",
    ),
    (
        lambda e: e.diff(HERE, DiffRequest(AID, "b", content_only=True)),
        f"{QUIET} diff --json-lines --content-only -- {AID} name:id:b",
    ),
)


@pytest.mark.parametrize(("build", "expected"), ROWS, ids=[expected[20:110] for _, expected in ROWS])
def test_a_request_becomes_the_expected_command_line(build: Callable[[Engine], Command], expected: str) -> None:
    assert line(build(engine())) == expected


REFUSED: tuple[tuple[str, Callable[[Engine], Command], str], ...] = (
    ("a mode of major 1", lambda e: e.init(HERE, InitRequest("repokey-blake2")), "not an encryption mode"),
    (
        "an encrypted repository without a passphrase",
        lambda e: e.init(RepositoryLocation("/r"), InitRequest("aes256-ocb")),
        "needs a passphrase",
    ),
    ("a backup of nothing", lambda e: e.create(HERE, CreateRequest("a", ())), "at least one source path"),
    ("a name with a star", lambda e: e.create(HERE, CreateRequest("a*", ("/x",))), "not allowed"),
    ("an unknown placeholder", lambda e: e.create(HERE, CreateRequest("a-{then}", ("/x",))), "not allowed"),
    ("a name too long", lambda e: e.create(HERE, CreateRequest("a" * 201, ("/x",))), "longer than 200"),
    (
        "a flag of major 1",
        lambda e: e.create(HERE, CreateRequest("a", ("/x",), custom_flags=("--noatime",))),
        "is not allowed; allowed flags",
    ),
    (
        "a chunker of major 1",
        lambda e: e.create(HERE, CreateRequest("a", ("/x",), custom_flags=("--chunker-params=buzhash,10,23,16,4095",))),
        "does not accept the value",
    ),
    ("two deletions at once", lambda e: e.delete_archive(HERE, DeleteArchiveRequest(AID, (AID,))), "one archive"),
    ("a policy that keeps nothing", lambda e: e.prune(HERE, prune(keep_daily=0)), "keeps nothing"),
    (
        "a repair in a hurry",
        lambda e: e.check(HERE, CheckRequest(max_duration=1, repair=True)),
        "cannot have a time limit",
    ),
    ("a restore to nowhere", lambda e: e.extract(HERE, ExtractRequest(AID)), "destination"),
)


@pytest.mark.parametrize(("build", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_bad_request_is_refused_with_a_reason(build: Callable[[Engine], Command], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        build(engine())


UNSUPPORTED: tuple[tuple[str, Callable[[Engine], Command], str], ...] = (
    ("a span", lambda e: e.prune(HERE, prune(keep_within="7d")), "keep_within"),
    (
        "a limited upload",
        lambda e: e.create(HERE, CreateRequest("a", ("/x",), upload_ratelimit_kib=100)),
        "upload_ratelimit_kib",
    ),
    (
        "a repository by ssh",
        lambda e: e.info(RepositoryLocation("ssh://user@host/r"), InfoRequest()),
        "local repositories",
    ),
)


@pytest.mark.parametrize(("build", "message"), [row[1:] for row in UNSUPPORTED], ids=[row[0] for row in UNSUPPORTED])
def test_a_request_beyond_the_beta_is_refused_as_unsupported(build: Callable[[Engine], Command], message: str) -> None:
    with pytest.raises(EngineUnsupported, match=message):
        build(engine())


@pytest.mark.parametrize("version", ["2.0.0b5", "2.0.0b25", "2.0.0"])
def test_another_version_is_refused_with_the_beta_to_install(version: str) -> None:
    with pytest.raises(EngineUnsupported, match=r"2\.0\.0b23"):
        engine(version)


def test_an_archive_is_addressed_by_its_id_if_the_id_is_known() -> None:
    assert engine().address("series", ID) == AID
    assert engine().address("series", None) == "series"


def test_every_encryption_mode_except_none_needs_a_passphrase() -> None:
    open_to_all = {mode for mode in ENCRYPTION_MODES if _makes_without_passphrase(mode)}

    assert open_to_all == {"none"}


def _makes_without_passphrase(mode: str) -> bool:
    try:
        engine().init(RepositoryLocation("/r"), InitRequest(mode))
    except InvalidRequest:
        return False
    return True


def test_no_command_carries_the_passphrase_where_others_can_read_it() -> None:
    for build, _ in ROWS:
        command = build(engine())
        assert "secret words" not in repr(command)
        assert "secret words" not in " ".join((*command.argv, *command.environment.values()))


def on_remote(path: str) -> RepositoryLocation:
    access = RcloneAccess({"RCLONE_CONFIG_REMOTE7_TYPE": "webdav"}, {"RCLONE_CONFIG_REMOTE7_PASS": "obscured"})
    return RepositoryLocation(path, "secret words", rclone=access)


def test_a_repository_on_a_remote_is_opened_with_the_engines_own_rclone() -> None:
    command = engine().info(on_remote("rclone:remote7:backups of/my nas"), InfoRequest())

    assert command.argv[command.argv.index("-r") + 1] == "rclone:remote7:backups of/my nas"
    assert command.environment["RCLONE_CONFIG_REMOTE7_TYPE"] == "webdav"
    assert command.secrets["RCLONE_CONFIG_REMOTE7_PASS"] == Secret("obscured", "environment")
    assert "obscured" not in repr(on_remote("rclone:remote7:x")) + repr(command.environment)


@pytest.mark.parametrize(
    "path", ["rclone:", "rclone:remote7:", "rclone::x", "rclone:r:a#b", "rclone:r:a?b", "rclone:r:a{b", "rclone:r:/"]
)
def test_a_remote_address_that_the_engine_would_misread_is_refused(path: str) -> None:
    with pytest.raises(InvalidRequest, match="rclone:REMOTE:PATH"):
        engine().info(RepositoryLocation(path), InfoRequest())
