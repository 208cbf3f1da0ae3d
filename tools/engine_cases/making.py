"""Creating repositories and archives, and what can go wrong."""

import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine_world import WITHOUT_ROOTS_PRIVILEGE, WORLD, Run, World, execute, unmount, while_reading

from backup_engine.requests import (
    InitRequest,
)


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
)
