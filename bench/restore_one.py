"""The cost of restoring one file, and a folder of a hundred, from an archive of many, compared with the bare engine.

The commands are those of a restore: the archive's listing, then the extraction. The engine itself writes the archive,
with entries assembled here, because backing up a million files takes most of an hour. The other files are never read,
so they have no content.
"""

import shutil
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from backup_engine.chunks.commands import narrowed
from backup_engine.command import Command
from backup_engine.detect import detect
from backup_engine.environment import EngineEnvironment
from backup_engine.far.remote_helper import interpreter_of
from backup_engine.interface import Engine, engine_for
from backup_engine.requests import ExtractRequest, ListFilesRequest, RepositoryLocation
from bench.history_support.real import Cost, run
from bench.report import Bench, Measurement, Options
from bench.running import folder
from tests.support.engines import ENGINES

MOST_OF_THE_ENGINE = 0.25
REPEATS = 3
FILES_PER_FOLDER = 100
PASSPHRASE = "bench"
WRITER = """
import os, stat, sys
import borg.archive
from borg.archiver import Archiver

files, per_folder, first = map(int, sys.argv[1:4])
honest = borg.archive.ChunkBuffer.add
written = []

def add(self, item):
    honest(self, item)
    if written or not stat.S_ISREG(item.mode):
        return
    written.append(item)
    template = item.as_dict()
    for number in range(files):
        entry = dict(template)
        path = "srv/shares/team-%03d/project-%05d/document-%07d.txt" % (number // 10000, number // per_folder, number)
        entry["path"] = path.encode() if isinstance(template["path"], bytes) else path
        if not first <= number < first + per_folder:
            entry["chunks"] = [(os.urandom(32), *template["chunks"][0][1:])]
        self.buffer.write(self.packer.pack(entry))
        if self.is_full():
            self.flush()

borg.archive.ChunkBuffer.add = add
archiver = Archiver()
sys.exit(archiver.run(archiver.parse_args(sys.argv[4:])))
"""


@dataclass(frozen=True, slots=True)
class Site:
    engine: Engine
    repository: Path
    place: Path
    files: int

    @property
    def environment(self) -> dict[str, str]:
        return {**self.engine.environment.variables(self.location, quick=True), "BORG_PASSPHRASE": PASSPHRASE}

    @property
    def location(self) -> RepositoryLocation:
        return RepositoryLocation(str(self.repository))

    def path(self, number: int) -> str:
        return f"srv/shares/team-{number // 10000:03}/project-{number // FILES_PER_FOLDER:05}/document-{number:07}.txt"


def run_bench(options: Options) -> list[Measurement]:
    with folder() as place:
        site = make_site(place, 200_000 if options.quick else 1_000_000)
        middle = site.path(first_of(site.files))
        measurements = []
        for what, path, files in (("one file", middle, 1), ("a folder", middle.rpartition("/")[0], FILES_PER_FOLDER)):
            pairs = [both(site, path, files) for _ in range(options.repeats(REPEATS))]
            measurements.append(compared(f"{what} of {site.files:,} files, processor time", pairs))
        return measurements


def compared(what: str, pairs: Sequence[tuple[Cost, Cost]]) -> Measurement:
    share = statistics.median(ours.cpu / alone.cpu for alone, ours in pairs)
    alone, ours = ([pair[which] for pair in pairs] for which in (0, 1))
    note = "; ".join(
        f"{name}: {statistics.median(each.cpu for each in costs):.2f} s, by the clock"
        f" {min(each.wall for each in costs):.2f} s at best"
        for name, costs in (("narrowed", ours), ("engine", alone))
    )
    return Measurement(what, share, "of the engine's", MOST_OF_THE_ENGINE, note)


def both(site: Site, path: str, files: int) -> tuple[Cost, Cost]:
    """Restore with the engine as it is, then narrowed."""
    return restored(site, path, files, is_narrowed=False), restored(site, path, files, is_narrowed=True)


def restored(site: Site, path: str, files: int, *, is_narrowed: bool) -> Cost:
    destination = site.place / "destination"
    destination.mkdir()
    request = ExtractRequest("many", (path,), destination=str(destination), sparse=True, without_flags=True)
    commands = (
        site.engine.list_files(site.location, ListFilesRequest("many", paths=(path,), exact=True)),
        site.engine.extract(site.location, request),
    )
    costs = [run_command(narrowed(each, (path,)) if is_narrowed else each, destination) for each in commands]
    assert sum(1 for each in destination.rglob("*") if each.is_file()) == files
    shutil.rmtree(destination)
    return Cost(
        sum(each.wall for each in costs), sum(each.cpu for each in costs), max(each.peak_bytes for each in costs), b""
    )


def run_command(command: Command, destination: Path) -> Cost:
    there = ("sh", "-c", 'cd "$0" && exec "$@" 2>/dev/null', str(destination), *command.argv)
    return run(there, {**command.environment, "BORG_PASSPHRASE": PASSPHRASE})


def make_site(place: Path, files: int) -> Site:
    program = ENGINES[max(ENGINES)]
    engine = engine_for(
        detect(str(program), str(place)), EngineEnvironment(str(place / "base"), "bench@1"), lock_wait=10
    )
    site = Site(engine, place / "repository", place, files)
    source = place / "source"
    source.mkdir()
    (source / "document").write_text("content")
    python = interpreter_of(str(program))
    assert python is not None
    numbers = (str(files), str(FILES_PER_FOLDER), str(first_of(files)))
    create = ("create", f"{site.repository}::many", str(source))
    for words in (
        (str(program), "init", "--encryption", "repokey-blake2", str(site.repository)),
        (*python, "-c", WRITER, *numbers, *create),
    ):
        subprocess.run(words, env=site.environment, check=True, capture_output=True)
    return site


def first_of(files: int) -> int:
    return files // 2 // FILES_PER_FOLDER * FILES_PER_FOLDER


BENCH = Bench("restoring one file of a million costs a quarter of the engine's processor time at most", run_bench)
