"""Cases in which the engine cannot open the repository: locks, passphrases, locations, machines."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine_world import WITHOUT_ROOTS_PRIVILEGE, WORLD, Run, World, execute, succeed, while_reading

from backup_engine.command import Command
from backup_engine.requests import (
    BreakLockRequest,
    CompactRequest,
    InfoRequest,
    InitRequest,
    ListArchivesRequest,
    RepositoryLocation,
)


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
    """Run a command while a backup that is reading a large file has the repository locked."""
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


def locked_exclusively(world: World) -> Run:
    large = world.large_file()
    world.init()
    return while_backing_up(world, large, world.engine.compact(world.location, CompactRequest()))


def usage_error(world: World) -> Run:
    command = world.create_command("first")
    return execute(replace(command, argv=(*command.argv[:1], "--no-such-option", *command.argv[1:])))


CASES: tuple[Callable[[World], Run], ...] = (
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
    usage_error,
    locked_exclusively,
)
