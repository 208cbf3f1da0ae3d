"""Record what real engines write, for the tests that replay it.

    python tools/record_engine_fixtures.py /usr/bin/borg .engines/borg-1.4/bin/borg .engines/borg-2.0/bin/borg [--only CASE]

Each case becomes tests/engine/recorded/<version>/<case>/ with ``stdout``, ``stderr``, ``exit.json`` (code, signal) and
``command.json`` (argv, environment, names of secrets). Run as root: the cases need a small file system of their own,
unreadable files and a second user's view. Everything happens under /tmp/holdfast-fixtures; names of the machine and of
the engine's installation are replaced, so that a recording says nothing about where it was made.
"""

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from backup_engine.command import Command
from backup_engine.detect import EngineProgram, detect
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

WORLD = Path("/tmp/holdfast-fixtures")  # noqa: S108 -- a fixed, telling name belongs into the recordings
RECORDED = Path(__file__).resolve().parent.parent / "tests" / "engine" / "recorded"
PASSPHRASE = "correct horse battery staple"  # noqa: S105 -- of repositories that live for a second
SECONDS_PER_RUN = 120
WITHOUT_ROOTS_PRIVILEGE = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
Interference = Callable[[subprocess.Popen[bytes]], None]


@dataclass(frozen=True)
class Run:
    command: Command
    stdout: bytes
    stderr: bytes
    code: int | None
    signal: int | None


class World:
    """A repository, something to back up, and an engine, at always the same place."""

    def __init__(self, program: EngineProgram) -> None:
        self.clear()
        self.program = program
        self.repository = WORLD / "repository"
        self.source = WORLD / "source"
        (WORLD / "engine").mkdir(parents=True)
        link = WORLD / "engine" / "borg"
        link.symlink_to(Path(program.path).resolve())
        self.engine = self.engine_with("base")
        self.source.mkdir()
        self._fill_source()

    def engine_with(self, base: str) -> Engine:
        program = replace(self.program, path=str(WORLD / "engine" / "borg"))
        return engine_for(program, EngineEnvironment(str(WORLD / base), "fixture-host@1"), lock_wait=1)

    @property
    def location(self) -> RepositoryLocation:
        return RepositoryLocation(str(self.repository), PASSPHRASE, self.encryption)

    @property
    def encryption(self) -> str:
        return "repokey-blake2" if self.program.major == 1 else "aes256-ocb"

    def clear(self) -> None:
        unmount(WORLD / "small")
        shutil.rmtree(WORLD, ignore_errors=True)

    def _fill_source(self) -> None:
        (self.source / "documents").mkdir()
        (self.source / "documents" / "letter.txt").write_text("Dear reader,\n" * 40)
        (self.source / "documents" / "ünïcode.txt").write_text("ünïcode\n")
        (self.source / "notes.txt").write_text("note\n" * 100)
        (self.source / "random.bin").write_bytes(random.Random(1).randbytes(300_000))  # noqa: S311 -- reproducible

    def large_file(self, name: str = "a-large.bin", megabytes: int = 24) -> Path:
        """Made before its siblings, so that the engine, which reads in inode order, meets it first."""
        shutil.rmtree(self.source)
        self.source.mkdir()
        path = self.source / name
        path.write_bytes(random.Random(2).randbytes(megabytes * 1_000_000))  # noqa: S311 -- reproducible
        return path

    def init(self) -> None:
        succeed(self.engine.init(self.location, InitRequest(self.encryption)))

    def create_command(self, name: str, *sources: Path, when: str | None = None, **options: object) -> Command:
        paths = tuple(str(source) for source in sources) or (str(self.source),)
        request = CreateRequest(name, paths, comment="holdfast:fixture", **options)  # type: ignore[arg-type]
        command = self.engine.create(self.location, request)
        if when is None:
            return command
        place = command.argv.index("create") + 1
        return replace(command, argv=(*command.argv[:place], f"--timestamp={when}", *command.argv[place:]))

    def with_archive(self, name: str = "first") -> None:
        self.init()
        succeed(self.create_command(name))

    def with_daily_archives(self) -> None:
        self.init()
        for number, day in enumerate(("2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"), start=1):
            (self.source / "notes.txt").write_text(f"note {number}\n" * 100)
            succeed(self.create_command(f"day-{number}", when=f"{day}T10:00:00"))


def execute(command: Command, interference: Interference | None = None, prefix: tuple[str, ...] = ()) -> Run:
    environment = dict(command.environment)
    descriptors = []
    for name, secret in command.secrets.items():
        reading, writing = os.pipe()
        os.write(writing, secret.value.encode())
        os.close(writing)
        descriptors.append(reading)
        environment[name] = str(reading)
    with (WORLD / "out").open("wb") as out, (WORLD / "err").open("wb") as err:
        process = subprocess.Popen(
            (*prefix, *(os.fsencode(argument) for argument in command.argv)),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment,
            pass_fds=descriptors,
            cwd=command.working_directory or WORLD,
            start_new_session=True,
        )
        for descriptor in descriptors:
            os.close(descriptor)
        if interference is not None:
            interference(process)
        code = process.wait(SECONDS_PER_RUN)
    return Run(
        command,
        (WORLD / "out").read_bytes(),
        (WORLD / "err").read_bytes(),
        code if code >= 0 else None,
        -code if code < 0 else None,
    )


def succeed(command: Command) -> Run:
    run = execute(command)
    if run.code != 0:
        raise SystemExit(f"{command.argv} ended with {run.code}:\n{run.stderr.decode(errors='replace')}")
    return run


def poll(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_PER_RUN
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited in vain for {what}")
        time.sleep(0.002)


def has_open(process: subprocess.Popen[bytes], path: Path) -> bool:
    with contextlib.suppress(OSError):
        folder = Path(f"/proc/{process.pid}/fd")
        return any(link.readlink() == path for link in folder.iterdir())
    return False


def while_reading(path: Path, action: Callable[[subprocess.Popen[bytes]], None]) -> Interference:
    """Given a source file, return what waits until the engine reads it, stops the engine, acts, and lets it go on."""

    def interfere(process: subprocess.Popen[bytes]) -> None:
        poll(lambda: has_open(process, path), f"the engine to open {path}")
        process.send_signal(signal.SIGSTOP)
        action(process)
        process.send_signal(signal.SIGCONT)

    return interfere


def unmount(path: Path) -> None:
    if path.is_mount():
        subprocess.run(("umount", str(path)), check=True)


def damage_data(repository: Path) -> None:
    """Flip bytes in the middle of the largest segment, or pack."""
    segments = [path for folder in ("data/0", "packs") for path in (repository / folder).rglob("*") if path.is_file()]
    segment = max(segments, key=lambda path: path.stat().st_size)
    content = bytearray(segment.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 16] = bytes(byte ^ 0xFF for byte in content[middle : middle + 16])
    segment.write_bytes(content)


# ---------------------------------------------------------------------------------------------------------------------
# The cases


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


# ---------------------------------------------------------------------------------------------------------------------
# Storing


def neutral(program: EngineProgram) -> Iterator[tuple[re.Pattern[bytes], bytes]]:
    """What names this machine, with what stands for it in a recording."""
    installation = Path(program.path).resolve().parent.parent
    if installation != Path("/usr"):
        yield re.compile(re.escape(os.fsencode(installation))), b"/opt/borg"
    yield re.compile(rb"\b" + re.escape(os.fsencode(socket.gethostname())) + rb"\b"), b"fixture-host"
    yield re.compile(rb"\b" + re.escape(os.fsencode(socket.getfqdn())) + rb"\b"), b"fixture-host"
    yield re.compile(rb"Platform: Linux .*?(\\n|\n)"), rb"Platform: Linux fixture-host x86_64\1"


def store(program: EngineProgram, case: str, run: Run) -> None:
    folder = RECORDED / program.version / case
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("stdout", run.stdout), ("stderr", run.stderr)):
        for pattern, replacement in neutral(program):
            content = pattern.sub(replacement, content)
        (folder / name).write_bytes(content)
    (folder / "exit.json").write_text(as_json({"code": run.code, "signal": run.signal}))
    command = {
        "argv": run.command.argv,
        "environment": run.command.environment,
        "secrets": sorted(run.command.secrets),
        "working_directory": run.command.working_directory,
    }
    (folder / "command.json").write_text(as_json(command))


def as_json(document: Mapping[str, object]) -> str:
    return json.dumps(document, indent=2) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    parser.add_argument("--only", metavar="CASE", action="append", default=[])
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("Recording needs root.")
    for path in options.programs:
        program = detect(path, str(Path.home()))
        for case in CASES:
            if options.only and case.__name__ not in options.only:
                continue
            if ONLY_OF_MAJOR.get(case.__name__, program.major) != program.major:
                continue
            world = World(program)
            try:
                run = case(world)
            finally:
                world.clear()
            store(program, case.__name__, run)
            print(f"{program.version} {case.__name__}: code {run.code} signal {run.signal}")


if __name__ == "__main__":
    main()
