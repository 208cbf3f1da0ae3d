"""Commands run by the real programs: what the recordings cannot show."""

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from backup_engine.borg1.arguments import CUSTOM_FLAGS
from backup_engine.detect import detect
from backup_engine.features import features
from backup_engine.interface import Engine
from backup_engine.log_results import parse_check_lines, parse_freed_bytes, parse_prune_lines
from backup_engine.outcome import Accumulator
from backup_engine.requests import (
    CheckRequest,
    CompactRequest,
    CreateRequest,
    DeleteArchiveRequest,
    ExportTarRequest,
    ExtractRequest,
    InfoRequest,
    InitRequest,
    ListArchivesRequest,
    ListFilesRequest,
    PruneRequest,
    RepositoryLocation,
    RetentionPolicy,
)
from backup_engine.results import parse_archives, parse_create_result, parse_info
from tests.engine.running import Ended, programs, real_engine, run

PROGRAMS = programs()
pytestmark = pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())

VALUES = {
    "--exclude-if-present": ".nobackup",
    "--files-cache": "ctime,size",
    "--files-changed": "mtime",
    "--chunker-params": "buzhash,10,23,16,4095",
}


@pytest.fixture
def engine(program: str, tmp_path: Path) -> Engine:
    return real_engine(program, tmp_path)


@pytest.fixture
def location(tmp_path: Path) -> RepositoryLocation:
    return RepositoryLocation(str(tmp_path / "repository"), "correct horse", "repokey-blake2")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "file.txt").write_text("content")
    return folder


def completed(ended: Ended) -> Ended:
    assert ended.outcome.status == "completed", ended.outcome
    return ended


def init(engine: Engine, location: RepositoryLocation) -> None:
    completed(run(engine.init(location, InitRequest("repokey-blake2"))))


def back_up(engine: Engine, location: RepositoryLocation, source: Path, name: str = "a1") -> Ended:
    return completed(run(engine.create(location, CreateRequest(name, (str(source),)))))


def names(engine: Engine, location: RepositoryLocation) -> list[str]:
    listed = completed(run(engine.list_archives(location, ListArchivesRequest())))
    return [archive.name for archive in parse_archives(listed.stdout)]


def test_a_repository_works_from_init_to_compact(engine: Engine, location: RepositoryLocation, source: Path) -> None:
    init(engine, location)
    created = parse_create_result(back_up(engine, location, source).stdout)
    back_up(engine, location, source, "a2")

    assert names(engine, location) == ["a1", "a2"]
    info = parse_info(completed(run(engine.info(location, InfoRequest("a1")))).stdout)
    assert info.archives[0].id == created.archive_id
    assert info.encryption == "repokey-blake2"

    policy = RetentionPolicy(keep_last=1)
    planned = parse_prune_lines(completed(run(engine.prune(location, PruneRequest(policy, dry_run=True)))).events)
    assert ([kept.archive for kept in planned.keep], [gone.archive for gone in planned.prune]) == (["a2"], ["a1"])
    done = parse_prune_lines(completed(run(engine.prune(location, PruneRequest(policy)))).events)
    assert [gone.id for gone in done.prune] == [gone.id for gone in planned.prune]
    completed(run(engine.delete_archive(location, DeleteArchiveRequest("a2"))))
    assert names(engine, location) == []

    assert parse_freed_bytes(completed(run(engine.compact(location, CompactRequest(threshold=0)))).events)
    assert parse_check_lines(completed(run(engine.check(location, CheckRequest()))).events).clean


@pytest.mark.parametrize("passphrase", ["pässwörd 'quoted' \"twice\"", "ends with a line end\n", "two\r\nlines"])
def test_a_passphrase_reaches_the_engine_unchanged(
    engine: Engine, location: RepositoryLocation, passphrase: str, tmp_path: Path, program: str
) -> None:
    init(engine, replace(location, passphrase=passphrase))
    checked = dict(engine.info(location, InfoRequest()).environment)
    checked["BORG_PASSPHRASE"] = passphrase

    answer = subprocess.run([program, "info", location.path], env=checked, capture_output=True, check=False)

    assert answer.returncode == 0, answer.stderr
    wrong = run(engine.info(replace(location, passphrase=passphrase.strip() + "x"), InfoRequest()))
    assert wrong.outcome.error_key == "engine.passphrase_wrong"


def test_braces_in_names_are_not_read_as_placeholders(
    engine: Engine, location: RepositoryLocation, source: Path, tmp_path: Path, program: str
) -> None:
    location = replace(location, path=str(tmp_path / "repository: of mine"))
    init(engine, location)
    assert Path(location.path, "config").exists()
    back_up(engine, location, source)
    environment = {**engine.info(location, InfoRequest()).environment, "BORG_PASSPHRASE": location.passphrase or ""}
    rename = [program, "rename", f"{location.path}::a1", "{{user}} {{unknown}}"]
    subprocess.run(rename, env=environment, capture_output=True, check=True)

    assert names(engine, location) == ["{user} {unknown}"]
    assert completed(run(engine.list_files(location, ListFilesRequest("{user} {unknown}")))).stdout
    assert completed(run(engine.info(location, InfoRequest("{user} {unknown}")))).stdout
    completed(run(engine.delete_archive(location, DeleteArchiveRequest("{user} {unknown}"))))
    assert names(engine, location) == []


def test_a_comment_is_stored_verbatim(engine: Engine, location: RepositoryLocation, source: Path) -> None:
    init(engine, location)
    comment = "holdfast:{now} --delete 'x'\nsecond line"
    completed(run(engine.create(location, CreateRequest("a1", (str(source),), comment=comment))))

    listed = completed(run(engine.list_archives(location, ListArchivesRequest())))
    assert [archive.comment for archive in parse_archives(listed.stdout)] == [comment]


def test_a_restore_preserves_every_byte_of_names(
    engine: Engine, location: RepositoryLocation, source: Path, tmp_path: Path
) -> None:
    odd = [b"caf\xe9", b"caf\xe8", b"re:.*", b"sh:**", b"-dash", b"new\nline", b"{now}"]
    for name in odd:
        Path(os.fsdecode(os.fsencode(source) + b"/" + name)).write_bytes(name)
    init(engine, location)
    back_up(engine, location, source)

    paths = [f"{source}/{os.fsdecode(name)}" for name in odd]
    for name, path in zip(odd, paths, strict=True):
        assert completed(run(engine.extract(location, ExtractRequest("a1", (path,), stdout=True)))).stdout == name

    target = tmp_path / "target"
    target.mkdir()
    depth = len(source.parts) - 1
    request = ExtractRequest("a1", tuple(paths), strip_components=depth, destination=str(target))
    completed(run(engine.extract(location, request)))
    assert sorted(os.listdir(os.fsencode(target))) == sorted(odd)


def test_a_tar_of_one_folder_contains_only_that_folder(
    engine: Engine, location: RepositoryLocation, source: Path
) -> None:
    (source / "inner").mkdir()
    (source / "inner" / "x").write_text("x")
    init(engine, location)
    back_up(engine, location, source)

    tar = completed(run(engine.export_tar(location, ExportTarRequest("a1", (f"{source}/inner",))))).stdout

    listing = subprocess.run(["tar", "-t"], input=tar, capture_output=True, check=True).stdout.decode().split()
    inner = f"{source}/inner".lstrip("/")
    assert [name.rstrip("/") for name in listing] == [inner, f"{inner}/x"]


def test_a_file_listing_is_the_same_on_every_run(engine: Engine, location: RepositoryLocation, source: Path) -> None:
    init(engine, location)
    back_up(engine, location, source)
    request = ListFilesRequest("a1", excludes=("sh:**/*.o",))

    first, second = (completed(run(engine.list_files(location, request))).stdout for _ in range(2))

    assert first == second
    assert first.count(b"\0") == 4


def test_the_real_program_accepts_every_flag_of_the_table(
    engine: Engine, location: RepositoryLocation, source: Path, program: str, tmp_path: Path
) -> None:
    unknown = set() if features(detect(program, str(tmp_path))).files_changed_option else {"--files-changed"}
    flags = [flag for flag in CUSTOM_FLAGS if flag not in unknown]
    words = tuple(word for flag in flags for word in ((flag, VALUES[flag]) if flag in VALUES else (flag,)))
    init(engine, location)

    request = CreateRequest("a1", (str(source),), custom_flags=words, compression="obfuscate,110,auto,zstd,3")

    completed(run(engine.create(location, request)))


def test_a_stopped_backup_leaves_a_working_repository(
    engine: Engine, location: RepositoryLocation, source: Path
) -> None:
    large = source / "large"
    large.write_bytes(os.urandom(30_000_000))
    init(engine, location)

    def stop_while_it_reads(process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + 60
        while not is_open(process.pid, large):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.005)
        process.terminate()

    slow = engine.create(location, CreateRequest("a1", (str(source),), compression="lzma,9"))
    assert run(slow, stop_while_it_reads, cancel=True).outcome.status == "cancelled"

    large.unlink()
    back_up(engine, location, source, "a2")
    assert names(engine, location) == ["a2"]


def is_open(pid: int, path: Path) -> bool:
    try:
        return any(link.readlink() == path for link in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def test_a_backup_of_missing_sources_is_recognised(
    engine: Engine, location: RepositoryLocation, tmp_path: Path
) -> None:
    init(engine, location)
    sources = (str(tmp_path / "gone: x"), f"{tmp_path}/gone too/")
    ended = run(engine.create(location, CreateRequest("a1", sources)))

    assert ended.outcome.status == "completed_with_warnings"
    assert Accumulator().add_all(ended.events).all_sources_missing(sources)
