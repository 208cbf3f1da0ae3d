"""The setting for recordings of an engine: a repository with its sources, and runs with interference."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from backup_engine.command import Command
from backup_engine.detect import EngineProgram
from backup_engine.environment import EngineEnvironment
from backup_engine.interface import Engine, engine_for
from backup_engine.requests import (
    CreateRequest,
    InitRequest,
    RepositoryLocation,
)

WORLD = Path("/tmp/holdfast-fixtures")  # noqa: S108 -- recordings need a fixed, descriptive name
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
    """A repository, sources and an engine, always in the same place."""

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
        """Create a file before its siblings, so that the engine, which reads in inode order, reads it first."""
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
    """Return an interference that waits until the engine reads a source file, pauses it, acts, and lets it continue."""

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
    """Flip bytes in the middle of the largest segment or pack."""
    segments = [path for folder in ("data/0", "packs") for path in (repository / folder).rglob("*") if path.is_file()]
    segment = max(segments, key=lambda path: path.stat().st_size)
    content = bytearray(segment.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 16] = bytes(byte ^ 0xFF for byte in content[middle : middle + 16])
    segment.write_bytes(content)
