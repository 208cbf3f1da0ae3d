"""An engine command for a few paths has the same result when it unpacks only their metadata, and reads little else."""

import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from backup_engine.chunks.commands import NARROWED, narrowed
from backup_engine.command import Command, Machine
from tests.real.restore.archives import Workshop, below
from tests.support.counting_engine import counting_engine
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.hostile import HostileArchive, hostile_repository, item, item_2
from tests.support.hostile_cases import case, wanted_seeds
from tests.support.running import Services
from tests.support.trees import LONG_AGO, NOT_UTF8, Seen, look_at, make_difficult_tree
from tests.support.warm_engines import warm_program

ALL = {**ENGINES, **({"2.0": ENGINE_2} if ENGINE_2 else {})}
TIMES = re.compile(rb'"time": [0-9.]+|"operation": [0-9]+')
SECONDS = 120
RECENT = LONG_AGO * 3 // 2


@dataclass(frozen=True)
class Ended:
    code: int
    output: bytes
    errors: bytes
    tree: dict[bytes, Seen]


def dated(seen: Seen) -> Seen:
    """A folder that was not requested itself is as old as the restore."""
    return seen if seen.modified < RECENT else replace(seen, modified=0)


@dataclass(frozen=True)
class Site:
    """An archive of one engine, and commands for it, run plain and narrowed."""

    program: Path
    repository: Path
    folder: Path
    major: int

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "HOME": str(self.folder),
            "BORG_BASE_DIR": str(self.folder / "base"),
            "BORG_EXIT_CODES": "modern",
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
            "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
            "BORG_SELFTEST": "disabled",
            "PYTHONHASHSEED": "0",  # otherwise the order of the keys in the engine's JSON varies
        }

    def accept(self) -> None:
        """Let the engine ask now whether it may open an unencrypted repository."""
        before = ["list", str(self.repository)] if self.major == 1 else ["-r", str(self.repository), "repo-list"]
        self.prepare(*before)

    def prepare(self, *arguments: str) -> None:
        subprocess.run(
            [warm_program(self.program), *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            check=True,
            timeout=SECONDS,
        )

    def words(self, verb: str, *options: str, archive: str = "made", paths: list[str] | None = None) -> tuple[str, ...]:
        place = ("--", f"{self.repository}::{archive}") if self.major == 1 else ("--", archive)
        before = () if self.major == 1 else ("-r", str(self.repository))
        tail = ("-",) if verb == "export-tar" else ()
        return (str(self.program), "--log-json", *before, verb, *options, *place, *tail, *(paths or []))

    def run(self, words: tuple[str, ...], *, is_narrowed: bool) -> Ended:
        destination = self.folder / "destination"
        destination.mkdir()
        command = Command(words)
        if is_narrowed:
            command = narrowed(command, ("any",))
            assert str(NARROWED) in command.argv
        done = subprocess.run(
            [os.fsencode(word) for word in command.argv],
            env=self.environment,
            cwd=destination,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        found = {path: dated(seen) for path, seen in look_at(destination).items() if path}
        shutil.rmtree(destination)
        return Ended(done.returncode, done.stdout, TIMES.sub(b"", done.stderr), found)

    def both(self, words: tuple[str, ...]) -> tuple[Ended, Ended]:
        """Plain and narrowed."""
        return self.run(words, is_narrowed=False), self.run(words, is_narrowed=True)


@pytest.fixture(params=sorted(ALL))
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    major = 1 if request.param in ENGINES else 2
    made = hostile_repository(ALL[request.param], tmp_path / "place", major)
    return Site(made.program, made.location, tmp_path, major)


@pytest.fixture
def archive(site: Site, tmp_path: Path) -> tuple[Site, Path]:
    """An archive of everything that a backup may contain, with hard links among folders in no particular order."""
    source = tmp_path / "tree"
    make_difficult_tree(source)
    rng = random.Random(site.program.name)
    for number in range(60):
        folder = source / rng.choice("abc") / rng.choice("abc")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file-{number}").write_bytes(rng.randbytes(rng.randrange(50)))
        if rng.random() < 0.5:
            os.link(rng.choice([*folder.glob("file-*")]), source / f"{rng.choice('xyz')}-{number}")
            os.link(source / "links" / "first", folder / f"linked-{number}")
    for path in (source, *source.rglob("*")):
        os.utime(path, ns=(LONG_AGO, path.lstat().st_mtime_ns % LONG_AGO), follow_symlinks=False)
    place = f"{site.repository}::made" if site.major == 1 else "made"
    before = () if site.major == 1 else ("-r", str(site.repository))
    site.prepare(*before, "create", place, "tree")
    return site, source


def selections(source: Path, rng: random.Random) -> Iterator[tuple[list[str], list[str]]]:
    """Requested paths, and options that exclude some."""
    every = sorted("tree" + os.fsdecode(b"/" + path if path else b"") for path in look_at(source))
    folders = [
        f"tree/{name}" for name in ("a", "b/c", "links", "modes", "empty folder", f"folder {os.fsdecode(NOT_UTF8)}")
    ]
    yield [f"pp:{rng.choice(every)}"], []
    yield ["pp:tree/links/second", "pp:tree/third"], []
    yield ["pp:tree/c", "pp:tree/not there", "pp:tre"], [f"--exclude=pp:{folders[0]}", "--exclude=pf:tree/c/a"]
    yield [f"pp:{path}" for path in folders], [f"--exclude=pp:{rng.choice(every)}"]
    yield [f"pp:{path}" for path in rng.sample(every, 40)], []
    yield [f"pf:{path}" for path in rng.sample(every, 3)], ["--strip-components=1"]
    yield ["sh:tree/*/a", "re:link"], []
    yield ["pp:tree"], [f"--exclude=pf:{path}" for path in rng.sample(every, 5)]


def few(source: Path, rng: random.Random) -> list[tuple[list[str], list[str]]]:
    return rng.sample(list(selections(source, rng)), 4)


@pytest.mark.parametrize(
    "rounds",
    [pytest.param(0, id="few"), pytest.param(100, id="many", marks=pytest.mark.campaign)],
)
def test_a_narrowed_command_does_what_the_engine_does(archive: tuple[Site, Path], rounds: int) -> None:
    site, source = archive
    listed = ("--list",) if site.major == 1 else ()
    rng = random.Random(site.major)
    every = [wanted for _ in range(rounds) for wanted in selections(source, rng)] if rounds else few(source, rng)
    for number, (paths, options) in enumerate(every):
        others = (
            site.words("list", "--json-lines", *(each for each in options if "strip" not in each), paths=paths),
            site.words("export-tar", "--progress", *options, paths=paths),
        )
        extract = site.words("extract", "--progress", *listed, "--sparse", "--noflags", *options, paths=paths)
        for words in (extract, others[number // 2 % 2]) if number % 2 else (extract,):
            plain, narrow = site.both(words)

            assert narrow == plain, shlex.join(words)


def test_a_narrowed_command_reads_only_requested_files_and_those_their_links_name(
    archive: tuple[Site, Path], tmp_path: Path
) -> None:
    site, _ = archive
    counted = Site(counting_engine(tmp_path, site.program), site.repository, site.folder, site.major)

    def looked_at(*paths: str) -> int:
        return int(counted.run(counted.words("list", paths=list(paths)), is_narrowed=True).errors.split()[-1])

    assert looked_at("pp:tree/plain.txt") == 1
    # The engine chooses which of the names comes first in the archive and carries the content.
    assert {looked_at("pp:tree/links/second"), looked_at("pp:tree/third")} <= ({1, 2} if site.major == 1 else {1})
    assert looked_at("pp:tree/links/second", "pp:tree/third") <= 3
    assert looked_at("sh:tree/*") > 100


@pytest.mark.parametrize(
    "cases",
    [pytest.param(3, id="few"), pytest.param(500, id="many", marks=pytest.mark.campaign)],
)
def test_a_narrowed_command_restores_from_a_hostile_archive_what_the_engine_restores(
    site: Site, tmp_path: Path, cases: int
) -> None:
    made = hostile_repository(site.program, tmp_path / "hostile", site.major)
    hostile = Site(site.program, made.location, tmp_path, site.major)
    outside = tmp_path / "outside"
    outside.mkdir()
    hostile.accept()
    for seed in wanted_seeds(cases):
        wanted = case(seed, outside, site.major)
        made.write(wanted)
        for paths in (["pp:tree"], ["pp:link", "pp:evil"]):
            plain, narrow = hostile.both(hostile.words("extract", "--progress", archive=wanted.name, paths=paths))

            # The engine may fail on an item that was not requested.
            assert narrow == plain or plain.code not in (0, 1), wanted.name


def test_an_archive_beyond_the_bounds_is_left_to_the_engine(site: Site, tmp_path: Path) -> None:
    made = hostile_repository(site.program, tmp_path / "hostile", site.major)
    hostile = Site(site.program, made.location, tmp_path, site.major)
    packed = item if site.major == 1 else item_2
    large = {"xattrs": {(b"user.x" if site.major == 1 else "user.x"): b"x" * 300_000}}
    many = [
        packed(b"tree/%d" % number if site.major == 1 else f"tree/{number}", chunks=[], **large)
        for number in range(120)
    ]
    made.write(HostileArchive("large", many))
    hostile.accept()

    plain, narrow = hostile.both(hostile.words("list", archive="large", paths=["pp:tree"]))

    assert narrow == plain
    assert len(plain.output.splitlines()) == 120


@pytest.mark.parametrize("version", [None, "1.2.40", "1.5.0", "1.4.5", "2.0.0b24"])
def test_an_unsupported_engine_version_runs_unchanged(version: str | None, tmp_path: Path) -> None:
    modules, program = tmp_path / "modules", tmp_path / "borg"
    (modules / "borg").mkdir(parents=True)
    if version is not None:
        (modules / "borg" / "__init__.py").write_text(f"__version__ = {version!r}\n")
    program.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:], 'narrowed' in sys.argv[0])\n")
    program.chmod(0o755)

    command = narrowed(Command((str(program), "extract", "x y")), ("x y",))
    done = subprocess.run(command.argv, env={"PYTHONPATH": str(modules)}, capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (0, b"['extract', 'x y'] False\n"), done.stderr
    assert command.shown == shlex.join((str(program), "extract", "x y"))


def test_commands_without_paths_on_another_machine_or_without_python_are_not_narrowed(tmp_path: Path) -> None:
    program = tmp_path / "borg"
    program.write_bytes(b"\x7fELF")
    script = Command((str(ENGINES["1.4"]), "extract"))
    there = Command(script.argv, machine=Machine("there", ("ssh", "there"), None))

    assert narrowed(script, ()) is script
    assert narrowed(there, ("x",)) == there
    assert (binary := narrowed(Command((str(program),)), ("x",))).argv == (str(program),)
    assert binary.shown is None


def test_a_restore_of_some_paths_runs_narrowed_with_the_engines_result(services: Services, tmp_path: Path) -> None:
    with services.own(HOLDFAST_BORG1=str(ENGINES["1.4"])) as running:
        workshop = Workshop(running)
        source, destination = tmp_path / "source", tmp_path / "destination"
        make_difficult_tree(source)
        archive = workshop.back_up(source)

        ended = workshop.restore(archive, destination, paths=[str(source / "links"), str(source / "third")])

        assert ended["status"] == "completed", ended
        assert ended["result"]["files_restored"] == 9
        wanted, found = look_at(source), look_at(below(destination, source))
        for name in (b"third", *(path for path in wanted if path.startswith(b"links/"))):
            assert found[name] == wanted[name]
