"""The cases that are recorded of each engine: what it is asked, and what goes wrong meanwhile."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from engine_world import (
    WITHOUT_ROOTS_PRIVILEGE,
    WORLD,
    Run,
    World,
    damage_data,
    execute,
    succeed,
    unmount,
    while_reading,
)

from backup_engine.command import Command
from backup_engine.requests import (
    BreakLockRequest,
    CheckRequest,
    CompactRequest,
    DeleteArchiveRequest,
    DiffRequest,
    ExportTarRequest,
    ExtractRequest,
    InfoRequest,
    InitRequest,
    KeyExportRequest,
    ListArchivesRequest,
    ListFilesRequest,
    PruneRequest,
    RenameRequest,
    RepositoryLocation,
    RetentionPolicy,
    UndeleteArchiveRequest,
)
from backup_engine.results import parse_archives


def init(world: World) -> Run:
    return execute(world.engine.init(world.location, InitRequest(world.encryption)))


def init_exists(world: World) -> Run:
    world.init()
    return init(world)


def init_folder_in_use(world: World) -> Run:
    world.repository.mkdir()
    (world.repository / "something").write_text("else")
    return init(world)


def init_not_permitted(world: World) -> Run:
    WORLD.chmod(0o755)
    (WORLD / "closed").mkdir(mode=0o500)
    location = replace(world.location, path=str(WORLD / "closed" / "repository"))
    return execute(world.engine.init(location, InitRequest(world.encryption)), prefix=WITHOUT_ROOTS_PRIVILEGE)


def create(world: World) -> Run:
    world.init()
    return execute(world.create_command("first", compression="zstd,3"))


def create_listing_files(world: World) -> Run:
    world.init()
    return execute(world.create_command("first", list_files=True))


def create_with_placeholder(world: World) -> Run:
    world.init()
    return execute(world.create_command("host-{now:%Y-%m-%d}"))


def create_unreadable(world: World) -> Run:
    world.init()
    (world.source / "notes.txt").chmod(0)
    (world.source / "documents").chmod(0)
    return execute(world.create_command("first", list_files=True), prefix=WITHOUT_ROOTS_PRIVILEGE)


def create_vanished(world: World) -> Run:
    large = world.large_file()
    vanishing = world.source / "z-vanishing.txt"
    vanishing.write_text("soon gone")
    world.init()
    command = world.create_command("first", compression="lzma,6", list_files=True)
    return execute(command, while_reading(large, lambda _: vanishing.unlink()))


def create_changed(world: World) -> Run:
    large = world.large_file()
    world.init()

    def grow(_: subprocess.Popen[bytes]) -> None:
        with large.open("ab") as file:
            file.write(b"more")

    return execute(world.create_command("first", compression="lzma,6", list_files=True), while_reading(large, grow))


def create_all_sources_missing(world: World) -> Run:
    world.init()
    return execute(world.create_command("first", WORLD / "gone", WORLD / "gone-too"))


def create_some_sources_missing(world: World) -> Run:
    world.init()
    return execute(world.create_command("first", world.source, WORLD / "gone"))


def create_not_utf8(world: World) -> Run:
    world.init()
    for name in (b"caf\xe9.txt", b"caf\xe8.txt"):
        Path(os.fsdecode(os.fsencode(world.source) + b"/" + name)).write_text("café")
    unreadable = Path(os.fsdecode(os.fsencode(world.source) + b"/na\xefve.txt"))
    unreadable.write_text("closed")
    unreadable.chmod(0)
    return execute(world.create_command("first", list_files=True), prefix=WITHOUT_ROOTS_PRIVILEGE)


def create_archive_exists(world: World) -> Run:
    world.with_archive()
    return execute(world.create_command("first"))


def create_disk_full(world: World) -> Run:
    small = WORLD / "small"
    small.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(small)), check=True)
    world.repository = small / "repository"
    world.large_file(megabytes=20)
    for number in range(5):
        (world.source / f"more-{number}.bin").write_bytes(os.urandom(2_000_000))
    world.init()
    try:
        return execute(world.create_command("first"))
    finally:
        unmount(small)


def create_sigterm(world: World) -> Run:
    large = world.large_file()
    world.init()
    terminate = while_reading(large, lambda process: process.terminate())
    return execute(world.create_command("first", compression="lzma,9"), terminate)


def create_sigint(world: World) -> Run:
    large = world.large_file()
    world.init()
    interrupt = while_reading(large, lambda process: process.send_signal(signal.SIGINT))
    return execute(world.create_command("first", compression="lzma,9"), interrupt)


def create_sigkill(world: World) -> Run:
    large = world.large_file()
    world.init()
    return execute(world.create_command("first", compression="lzma,9"), while_reading(large, lambda p: p.kill()))


def list_archives(world: World) -> Run:
    world.with_daily_archives()
    return execute(world.engine.list_archives(world.location, ListArchivesRequest()))


def list_last_archive(world: World) -> Run:
    world.with_daily_archives()
    return execute(world.engine.list_archives(world.location, ListArchivesRequest(last=1)))


def list_empty(world: World) -> Run:
    world.init()
    return execute(world.engine.list_archives(world.location, ListArchivesRequest()))


def wrong_passphrase(world: World) -> Run:
    world.with_archive()
    location = replace(world.location, passphrase="not the passphrase")  # noqa: S106 -- that is the case
    return execute(world.engine.list_archives(location, ListArchivesRequest()))


def no_passphrase(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.list_archives(replace(world.location, passphrase=None), ListArchivesRequest()))


def locked(world: World) -> Run:
    large = world.large_file()
    world.init()
    return while_backing_up(world, large, world.engine.list_archives(world.location, ListArchivesRequest()))


def while_backing_up(world: World, large: Path, command: Command) -> Run:
    """Run a command while a backup that reads a large file holds the repository."""
    runs: list[Run] = []

    def ask_meanwhile(process: subprocess.Popen[bytes]) -> None:
        outputs = (WORLD / "out", WORLD / "err")
        for path in outputs:
            path.rename(path.with_suffix(".holder"))
        runs.append(execute(command))
        process.kill()
        for path in outputs:
            path.with_suffix(".holder").rename(path)

    execute(world.create_command("first", compression="lzma,9"), while_reading(large, ask_meanwhile))
    return runs[0]


def break_lock(world: World) -> Run:
    world.with_archive()
    (world.repository / "lock.exclusive").mkdir()
    (world.repository / "lock.exclusive" / "other-host@2.1-0").touch()
    return execute(world.engine.break_lock(world.location, BreakLockRequest()))


def locked_by_another_host(world: World) -> Run:
    world.with_archive()
    (world.repository / "lock.exclusive").mkdir()
    (world.repository / "lock.exclusive" / "other-host@2.1-0").touch()
    return execute(world.create_command("second"))


def repository_missing(world: World) -> Run:
    return execute(world.engine.list_archives(world.location, ListArchivesRequest()))


def not_a_repository(world: World) -> Run:
    world.repository.mkdir()
    (world.repository / "something").write_text("else")
    return execute(world.engine.list_archives(world.location, ListArchivesRequest()))


def repository_not_permitted(world: World) -> Run:
    world.with_archive()
    world.repository.chmod(0)
    return execute(world.engine.list_archives(world.location, ListArchivesRequest()), prefix=WITHOUT_ROOTS_PRIVILEGE)


def repository_read_only(world: World) -> Run:
    world.with_archive()
    world.repository.chmod(0o500)
    return execute(world.create_command("second"), prefix=WITHOUT_ROOTS_PRIVILEGE)


def relocated(world: World) -> Run:
    world.with_archive()
    moved = WORLD / "moved"
    world.repository.rename(moved)
    location = replace(world.location, path=str(moved))
    return execute(world.engine.list_archives(location, ListArchivesRequest()))


def relocated_confirmed(world: World) -> Run:
    world.with_archive()
    moved = WORLD / "moved"
    world.repository.rename(moved)
    location = replace(world.location, path=str(moved), relocated_ok=True)
    return execute(world.engine.list_archives(location, ListArchivesRequest()))


def unencrypted_unknown(world: World) -> Run:
    location = RepositoryLocation(str(world.repository), None, "none")
    succeed(world.engine.init(location, InitRequest("none")))
    return execute(world.engine_with("other-base").info(location, InfoRequest()))


def unreachable(world: World) -> Run:
    location = replace(world.location, path="ssh://backup@127.0.0.1:1/repository")
    return execute(world.engine.list_archives(location, ListArchivesRequest()))


def remote_engine_missing(world: World) -> Run:
    shell = WORLD / "engine" / "ssh"
    shell.write_text('#!/bin/sh\necho "sh: 1: borg: not found" >&2\nsleep 1\nexit 127\n')
    shell.chmod(0o755)
    location = replace(world.location, path="ssh://backup@fixture-remote/repository", rsh=str(shell))
    return execute(world.engine.list_archives(location, ListArchivesRequest()))


def info_repository(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.info(world.location, InfoRequest()))


def info_archive(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.info(world.location, InfoRequest("first")))


def info_archive_missing(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.info(world.location, InfoRequest("other")))


def delete_archive(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.delete_archive(world.location, DeleteArchiveRequest("first")))


def delete_archive_missing(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.delete_archive(world.location, DeleteArchiveRequest("other")))


def rename(world: World) -> Run:
    world.with_archive()
    new_name = "renamed {literally}" if world.program.major == 1 else "renamed literally"
    return execute(world.engine.rename(world.location, RenameRequest("first", new_name)))


PRUNING = RetentionPolicy(keep_last=1, keep_daily=2)


def undelete_archive(world: World) -> Run:
    world.with_archive()
    archive = parse_archives(succeed(world.engine.list_archives(world.location, ListArchivesRequest())).stdout)[0]
    succeed(world.engine.delete_archive(world.location, DeleteArchiveRequest("first")))
    request = UndeleteArchiveRequest(world.engine.address(archive.name, archive.id))
    return execute(world.engine.undelete_archive(world.location, request))


def list_deleted_archives(world: World) -> Run:
    world.with_archive()
    succeed(world.engine.delete_archive(world.location, DeleteArchiveRequest("first")))
    return execute(world.engine.list_archives(world.location, ListArchivesRequest(deleted=True)))


def info_archive_ambiguous(world: World) -> Run:
    world.with_archive()
    succeed(world.create_command("first"))
    return execute(world.engine.info(world.location, InfoRequest("first")))


def locked_exclusively(world: World) -> Run:
    large = world.large_file()
    world.init()
    return while_backing_up(world, large, world.engine.compact(world.location, CompactRequest()))


def prune_dry_run(world: World) -> Run:
    world.with_daily_archives()
    return execute(world.engine.prune(world.location, PruneRequest(PRUNING, dry_run=True)))


def prune(world: World) -> Run:
    world.with_daily_archives()
    return execute(world.engine.prune(world.location, PruneRequest(PRUNING, glob="day-*")))


def compact(world: World) -> Run:
    world.with_daily_archives()
    succeed(world.engine.prune(world.location, PruneRequest(RetentionPolicy(keep_last=1))))
    return execute(world.engine.compact(world.location, CompactRequest(threshold=0)))


def check(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.check(world.location, CheckRequest()))


def check_partial(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.check(world.location, CheckRequest(max_duration=60)))


def check_damaged(world: World) -> Run:
    world.with_archive()
    damage_data(world.repository)
    return execute(world.engine.check(world.location, CheckRequest(verify_data=True)))


def check_repair(world: World) -> Run:
    world.with_archive()
    damage_data(world.repository)
    return execute(world.engine.check(world.location, CheckRequest(repair=True)))


def extract(world: World) -> Run:
    world.with_archive()
    target = WORLD / "target"
    target.mkdir()
    request = ExtractRequest("first", (f"{world.source}/documents",), destination=str(target), list_files=True)
    return execute(world.engine.extract(world.location, request))


def extract_nothing_matched(world: World) -> Run:
    world.with_archive()
    target = WORLD / "target"
    target.mkdir()
    request = ExtractRequest("first", ("not/there",), destination=str(target))
    return execute(world.engine.extract(world.location, request))


def extract_damaged(world: World) -> Run:
    world.with_archive()
    damage_data(world.repository)
    target = WORLD / "target"
    target.mkdir()
    return execute(world.engine.extract(world.location, ExtractRequest("first", destination=str(target))))


def extract_to_stdout(world: World) -> Run:
    world.with_archive()
    request = ExtractRequest("first", (f"{world.source}/documents/letter.txt",), stdout=True)
    return execute(world.engine.extract(world.location, request))


def export_tar(world: World) -> Run:
    world.with_archive()
    request = ExportTarRequest("first", (f"{world.source}/documents",))
    return execute(world.engine.export_tar(world.location, request))


def list_files(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.list_files(world.location, ListFilesRequest("first", excludes=("*.bin",))))


def diff(world: World) -> Run:
    world.with_daily_archives()
    return execute(world.engine.diff(world.location, DiffRequest("day-1", "day-2")))


def key_export(world: World) -> Run:
    world.with_archive()
    return execute(world.engine.key_export(world.location, KeyExportRequest()))


def usage_error(world: World) -> Run:
    command = world.create_command("first")
    return execute(replace(command, argv=(*command.argv[:1], "--no-such-option", *command.argv[1:])))


CASES: tuple[Callable[[World], Run], ...] = (
    init,
    init_exists,
    init_folder_in_use,
    init_not_permitted,
    create,
    create_listing_files,
    create_with_placeholder,
    create_unreadable,
    create_vanished,
    create_changed,
    create_all_sources_missing,
    create_some_sources_missing,
    create_not_utf8,
    create_archive_exists,
    create_disk_full,
    create_sigterm,
    create_sigint,
    create_sigkill,
    list_archives,
    list_last_archive,
    list_empty,
    wrong_passphrase,
    no_passphrase,
    locked,
    locked_by_another_host,
    break_lock,
    repository_missing,
    not_a_repository,
    repository_not_permitted,
    repository_read_only,
    relocated,
    relocated_confirmed,
    unencrypted_unknown,
    unreachable,
    remote_engine_missing,
    info_repository,
    info_archive,
    info_archive_missing,
    delete_archive,
    delete_archive_missing,
    rename,
    prune_dry_run,
    prune,
    compact,
    check,
    check_partial,
    check_damaged,
    check_repair,
    extract,
    extract_nothing_matched,
    extract_damaged,
    extract_to_stdout,
    export_tar,
    list_files,
    diff,
    key_export,
    usage_error,
    undelete_archive,
    list_deleted_archives,
    info_archive_ambiguous,
    locked_exclusively,
)

ONLY_OF_MAJOR: Mapping[str, int] = {
    **dict.fromkeys(("undelete_archive", "list_deleted_archives", "info_archive_ambiguous", "locked_exclusively"), 2),
    **dict.fromkeys(("create_with_placeholder", "create_archive_exists", "create_sigint", "locked", "break_lock"), 1),
    **dict.fromkeys(("locked_by_another_host", "unreachable", "remote_engine_missing"), 1),
}
"""Cases that make no sense for the other major."""
