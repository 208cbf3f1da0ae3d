"""Requests become command lines, one row each."""

from collections.abc import Callable

import pytest

from backup_engine.command import Command
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
    RepositoryLocation,
    RetentionPolicy,
)

HERE = RepositoryLocation("/backups/r", "secret words")
ENVIRONMENT = EngineEnvironment("/var/lib/engine", "1@host")


def engine(version: str = "1.4.5", lock_wait: int = 5) -> Engine:
    parts = tuple(int(part) for part in version.split("."))
    return engine_for(EngineProgram("/usr/bin/borg", version, parts, parts[0]), ENVIRONMENT, lock_wait)


def line(command: Command) -> str:
    assert command.argv[0] == "/usr/bin/borg"
    return " ".join(command.argv[1:])


def prune(**options: object) -> PruneRequest:
    return PruneRequest(RetentionPolicy(**options))  # type: ignore[arg-type]


ROWS: tuple[tuple[Callable[[Engine], Command], str], ...] = (
    (
        lambda e: e.init(HERE, InitRequest("repokey-blake2")),
        "--log-json --lock-wait 5 init --encryption=repokey-blake2 --make-parent-dirs -- /backups/r",
    ),
    (
        lambda e: e.init(RepositoryLocation("/backups/r"), InitRequest("none", make_parent_dirs=False)),
        "--log-json --lock-wait 5 init --encryption=none -- /backups/r",
    ),
    (
        lambda e: e.create(HERE, CreateRequest("a1", ("/home", "/etc"))),
        "--log-json --progress --lock-wait 5 create --json --checkpoint-interval=300 -- /backups/r::a1 /home /etc",
    ),
    (
        lambda e: e.create(
            HERE,
            CreateRequest(
                "{hostname}-{now:%Y-%m-%d}",
                ("/home",),
                exclude_patterns=("*.tmp", "re:^/home/[^/]+/cache", "-odd"),
                compression="auto,zstd,10",
                comment="holdfast:{1}",
                custom_flags=("--one-file-system", "--exclude-if-present", ".nobackup", "--files-cache=mtime,size"),
                upload_ratelimit_kib=500,
                checkpoint_interval=60,
                list_files=True,
            ),
        ),
        (
            "--log-json --progress --lock-wait 5 --upload-ratelimit=500 create --json --list --filter=AMCE"
            " --checkpoint-interval=60 --compression=auto,zstd,10 --comment=holdfast:{{1}}"
            " --exclude=*.tmp --exclude=re:^/home/[^/]+/cache --exclude=-odd"
            " --one-file-system --exclude-if-present=.nobackup --files-cache=mtime,size"
            " -- /backups/r::{hostname}-{now:%Y-%m-%d} /home"
        ),
    ),
    (
        lambda e: e.list_archives(HERE, ListArchivesRequest()),
        (
            "--log-json --lock-wait 5 list --json"
            " --format={archive}{id}{comment}{hostname}{username}{start}{end} -- /backups/r"
        ),
    ),
    (
        lambda e: e.list_archives(HERE, ListArchivesRequest(last=1, consider_checkpoints=True)),
        (
            "--log-json --lock-wait 5 list --json --format={archive}{id}{comment}{hostname}{username}{start}{end}"
            " --consider-checkpoints --last=1 -- /backups/r"
        ),
    ),
    (lambda e: e.info(HERE, InfoRequest()), "--log-json --lock-wait 5 info --json -- /backups/r"),
    (lambda e: e.info(HERE, InfoRequest("a{1}")), "--log-json --lock-wait 5 info --json -- /backups/r::a{{1}}"),
    (
        lambda e: e.delete_archive(HERE, DeleteArchiveRequest("-a1")),
        "--log-json --progress --info --lock-wait 5 delete -- /backups/r::-a1",
    ),
    (lambda e: e.break_lock(HERE, BreakLockRequest()), "--log-json --lock-wait 5 break-lock -- /backups/r"),
    (lambda e: e.key_export(HERE, KeyExportRequest()), "--log-json --lock-wait 5 key export -- /backups/r"),
    (
        lambda e: e.prune(
            HERE,
            PruneRequest(
                RetentionPolicy(
                    keep_within="2d",
                    keep_last=1,
                    keep_minutely=2,
                    keep_hourly=3,
                    keep_daily=4,
                    keep_weekly=5,
                    keep_monthly=6,
                    keep_quarterly=7,
                    keep_yearly=8,
                ),
                glob="host-*",
            ),
        ),
        (
            "--log-json --info --lock-wait 5 --progress prune --list --keep-within=2d --keep-last=1 --keep-minutely=2"
            " --keep-hourly=3 --keep-daily=4 --keep-weekly=5 --keep-monthly=6 --keep-3monthly=7 --keep-yearly=8"
            " --glob-archives=host-* -- /backups/r"
        ),
    ),
    (
        lambda e: e.prune(HERE, PruneRequest(RetentionPolicy(keep_daily=7, keep_weekly=0), dry_run=True)),
        "--log-json --info --lock-wait 5 prune --list --dry-run --keep-daily=7 -- /backups/r",
    ),
    (
        lambda e: e.compact(HERE, CompactRequest()),
        "--log-json --progress --info --lock-wait 5 compact -- /backups/r",
    ),
    (
        lambda e: e.compact(HERE, CompactRequest(threshold=0)),
        "--log-json --progress --info --lock-wait 5 compact --threshold=0 -- /backups/r",
    ),
    (lambda e: e.check(HERE, CheckRequest()), "--log-json --progress --info --lock-wait 5 check -- /backups/r"),
    (
        lambda e: e.check(HERE, CheckRequest(max_duration=600)),
        "--log-json --progress --info --lock-wait 5 check --repository-only --max-duration=600 -- /backups/r",
    ),
    (
        lambda e: e.check(HERE, CheckRequest(archives_only=True, verify_data=True, repair=True)),
        "--log-json --progress --info --lock-wait 5 check --archives-only --verify-data --repair -- /backups/r",
    ),
    (
        lambda e: e.extract(
            HERE,
            ExtractRequest(
                "a1", ("/home/x", "re:etc"), strip_components=2, list_files=True, destination="/t", patterns=("sh:h/*",)
            ),
        ),
        (
            "--log-json --lock-wait 5 --progress extract --list --strip-components=2"
            " -- /backups/r::a1 pp:home/x pp:re:etc sh:h/*"
        ),
    ),
    (
        lambda e: e.extract(HERE, ExtractRequest("a1", dry_run=True)),
        "--log-json --lock-wait 5 --progress extract --dry-run -- /backups/r::a1",
    ),
    (
        lambda e: e.extract(HERE, ExtractRequest("a1", ("f",), stdout=True)),
        "--log-json --lock-wait 5 extract --stdout -- /backups/r::a1 pp:f",
    ),
    (
        lambda e: e.export_tar(HERE, ExportTarRequest("a1", ("home",), strip_components=1)),
        "--log-json --lock-wait 5 export-tar --strip-components=1 -- /backups/r::a1 - pp:home",
    ),
    (
        lambda e: e.list_files(HERE, ListFilesRequest("a1", excludes=("*.o",), paths=("home",))),
        (
            "--log-json --lock-wait 5 list --format={mode}{TAB}{uid}{TAB}{gid}{TAB}{user}{TAB}{group}{TAB}{size}{TAB}"
            "{isomtime}{TAB}{path}{NUL}{linktarget}{NUL} --exclude=*.o -- /backups/r::a1 pp:home"
        ),
    ),
    (
        lambda e: e.diff(HERE, DiffRequest("a1", "a{2}", content_only=True)),
        "--log-json --lock-wait 5 diff --json-lines --content-only -- /backups/r::a1 a{{2}}",
    ),
)


@pytest.mark.parametrize(("build", "expected"), ROWS, ids=[expected[:90] for _, expected in ROWS])
def test_a_request_becomes_the_expected_command_line(build: Callable[[Engine], Command], expected: str) -> None:
    assert line(build(engine())) == expected


def test_the_configured_lock_wait_is_passed_to_the_engine() -> None:
    assert engine(lock_wait=60).info(HERE, InfoRequest()).argv[2:4] == ("--lock-wait", "60")


REFUSED: tuple[tuple[str, Callable[[Engine], Command], str], ...] = (
    ("an unknown encryption", lambda e: e.init(HERE, InitRequest("rot13")), "not an encryption mode"),
    (
        "an encrypted repository without a passphrase",
        lambda e: e.init(RepositoryLocation("/r"), InitRequest("repokey")),
        "needs a passphrase",
    ),
    (
        "an encrypted repository with an empty passphrase",
        lambda e: e.init(RepositoryLocation("/r", ""), InitRequest("keyfile")),
        "needs a passphrase",
    ),
    ("a backup of nothing", lambda e: e.create(HERE, CreateRequest("a", ())), "at least one source path"),
    ("a relative source", lambda e: e.create(HERE, CreateRequest("a", ("home",))), "not absolute"),
    ("an option as source", lambda e: e.create(HERE, CreateRequest("a", ("--stats",))), "not absolute"),
    (
        "a checkpoint each moment",
        lambda e: e.create(HERE, CreateRequest("a", ("/x",), checkpoint_interval=0)),
        "interval",
    ),
    (
        "an upload limit of nothing",
        lambda e: e.create(HERE, CreateRequest("a", ("/x",), upload_ratelimit_kib=0)),
        "limit",
    ),
    ("a NUL in a comment", lambda e: e.create(HERE, CreateRequest("a", ("/x",), comment="a\0")), "NUL"),
    ("a policy that keeps nothing", lambda e: e.prune(HERE, prune(keep_daily=0)), "keeps nothing"),
    ("a policy without a rule", lambda e: e.prune(HERE, prune()), "keeps nothing"),
    ("a negative rule", lambda e: e.prune(HERE, prune(keep_daily=-1)), "keep_daily"),
    ("a span without a unit", lambda e: e.prune(HERE, prune(keep_within="7")), "keep_within"),
    ("a span as an option", lambda e: e.prune(HERE, prune(keep_within="-7d")), "keep_within"),
    (
        "an empty glob",
        lambda e: e.prune(HERE, PruneRequest(RetentionPolicy(keep_last=1), glob="")),
        "glob is empty",
    ),
    ("a threshold over all", lambda e: e.compact(HERE, CompactRequest(101)), "threshold"),
    (
        "a repair in a hurry",
        lambda e: e.check(HERE, CheckRequest(max_duration=1, repair=True)),
        "cannot have a time limit",
    ),
    (
        "data without archives",
        lambda e: e.check(HERE, CheckRequest(repository_only=True, verify_data=True)),
        "verify_data",
    ),
    (
        "both halves alone",
        lambda e: e.check(HERE, CheckRequest(repository_only=True, archives_only=True)),
        "cannot be combined with",
    ),
    ("a restore to nowhere", lambda e: e.extract(HERE, ExtractRequest("a")), "destination"),
    ("a restore to here", lambda e: e.extract(HERE, ExtractRequest("a", destination="here")), "not absolute"),
    (
        "a way out of the archive",
        lambda e: e.extract(HERE, ExtractRequest("a", ("x/../../y",), dry_run=True)),
        "not a path",
    ),
    ("the last none", lambda e: e.list_archives(HERE, ListArchivesRequest(last=0)), "last"),
    ("a name with a slash", lambda e: e.info(HERE, InfoRequest("a/b")), "cannot be the name"),
)


@pytest.mark.parametrize(("build", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_bad_request_is_refused_with_a_reason(build: Callable[[Engine], Command], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        build(engine())


@pytest.mark.parametrize("version", ["1.2.4", "1.4.0"])
def test_a_quarterly_rule_is_refused_on_versions_without_it(version: str) -> None:
    with pytest.raises(EngineUnsupported, match=r"1\.4\.1"):
        engine(version).prune(HERE, prune(keep_quarterly=1))

    assert "--keep-3monthly" not in line(engine(version).prune(HERE, prune(keep_quarterly=0, keep_last=1)))


def test_a_flag_is_refused_on_versions_without_it() -> None:
    request = CreateRequest("a", ("/x",), custom_flags=("--files-changed=mtime",))

    assert "--files-changed=mtime" in engine().create(HERE, request).argv
    with pytest.raises(EngineUnsupported, match="--files-changed"):
        engine("1.2.4").create(HERE, request)


def test_a_major_without_an_adapter_is_refused() -> None:
    with pytest.raises(EngineUnsupported, match="BorgBackup 3"):
        engine("3.0.0")


def test_a_restore_runs_in_its_destination() -> None:
    command = engine().extract(HERE, ExtractRequest("a1", destination="/target"))

    assert command.working_directory == "/target"
    assert engine().info(HERE, InfoRequest()).working_directory is None


def test_only_a_repair_answers_the_engines_confirmation_with_yes() -> None:
    variable = "BORG_CHECK_I_KNOW_WHAT_I_AM_DOING"

    assert engine().check(HERE, CheckRequest(repair=True)).environment[variable] == "YES"
    assert engine().check(HERE, CheckRequest()).environment[variable] == "NO"


def test_short_reads_skip_the_self_test_and_backups_do_not() -> None:
    assert engine().info(HERE, InfoRequest()).environment["BORG_SELFTEST"] == "disabled"
    assert "BORG_SELFTEST" not in engine().create(HERE, CreateRequest("a", ("/x",))).environment


def test_no_command_carries_the_passphrase_where_others_can_read_it() -> None:
    for build, _ in ROWS:
        command = build(engine())
        assert "secret words" not in repr(command)
        assert "secret words" not in " ".join((*command.argv, *command.environment.values()))
