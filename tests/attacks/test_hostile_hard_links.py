"""An archive that claims a file to be a hard link to one outside the restored folder: the link is never created."""

import base64
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from backup_engine.far.unpack import Unpacker
from backup_jobs.endings import Failed
from backup_jobs.restore.private_tree import PrivateTree
from backup_jobs.restore.unrestorable import OUTSIDE_HARD_LINK, remove_unrestorable
from backup_protocol.frames import DATA, END, SURVEY, frame
from holdfast.restore.ssh_restore import placing_script
from tests.real.restore.archives import Archive, Workshop
from tests.support.agent_job import run_restore
from tests.support.archive_sets import OwnEngine
from tests.support.crafted import craft, hard_link, symbolic_link
from tests.support.engines import ENGINES
from tests.support.running import Services

OLDER = ENGINES["1.2"]
"""It creates these links; newer engines refuse to."""


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file beside the destination, on the same file system, without hard links."""
    file = tmp_path / "victim"
    file.write_text("somebody else's")
    return file


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "file").write_text("honest")
    return folder


def hostile_items(levels: int) -> list[dict[str, object]]:
    """Links to the victim, via parent folders and through a symbolic link; and a legitimate hard link."""
    back = "/".join([".."] * levels)
    return [
        hard_link("direct", f"{back}/victim"),
        symbolic_link("up", back),
        hard_link("through", "up/victim"),
        hard_link("honest", "file"),
    ]


def check(victim: Path, destination: Path) -> None:
    assert victim.stat().st_nlink == 1
    assert victim.read_text() == "somebody else's"
    assert not (destination / "direct").exists()
    assert not (destination / "through").exists()
    assert (destination / "file").read_text() == "honest"
    assert (destination / "honest").samefile(destination / "file")
    assert (destination / "up").is_symlink()


@pytest.mark.parametrize("series", sorted(ENGINES))
def test_an_agent_never_restores_a_hard_link_to_an_outside_file(
    series: str, tmp_path: Path, source: Path, victim: Path
) -> None:
    repository, environment = tmp_path / "repository", {"BORG_BASE_DIR": str(tmp_path / "base")}
    subprocess.run([OLDER, "init", "-e", "none", repository], env=environment, check=True)
    craft(repository, "hostile", source, hostile_items(3), environment)
    destination = tmp_path / "destination"

    ended = run_restore(tmp_path, repository, "hostile", destination, program=ENGINES[series])

    assert isinstance(ended, Failed)
    assert ended.error_key == "restore.incomplete"
    assert sorted(item["path"] for item in ended.details["failed"]) == ["direct", "through"]
    assert (ended.details["files_restored"], ended.details["files_failed"]) == (3, 2)
    check(victim, destination)


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    services = Services(tmp_path_factory.mktemp("older-engine"))
    yield Workshop(services.get("sqlite", "1.2"))
    services.stop()


def test_the_service_never_restores_a_hard_link_to_an_outside_file(
    older: Workshop, tmp_path: Path, source: Path, victim: Path
) -> None:
    path = older.running.new_path()
    repository = older.running.admin.create_repository(
        path, [source], encryption="none", passphrase=None, index_mode="off"
    )
    craft(path, "hostile", source, hostile_items(3), OwnEngine.of(older.running).environment())
    destination = tmp_path / "destination"

    ended = older.restore(Archive(repository, "hostile"), destination, overwrite="replace")

    assert (ended["status"], ended["error_key"]) == ("failed", "restore.incomplete")
    failed = {item["path"]: item["reason"] for item in ended["result"]["failed"]}
    assert failed == {"direct": OUTSIDE_HARD_LINK, "through": OUTSIDE_HARD_LINK}
    check(victim, destination)


def test_an_ssh_machine_never_restores_a_hard_link_to_an_outside_file(tmp_path: Path, victim: Path) -> None:
    destination = tmp_path / "destination"
    private = PrivateTree(bytes(destination), "0" * 32)
    private.make()
    tree = Path(os.fsdecode(private.path))
    (tree / "file").write_text("honest")
    (tree / "up").symlink_to("..")
    os.link(tree / "file", tree / "honest")
    os.link(victim, tree / "direct")
    (tree / "folder").mkdir()
    os.mkfifo(tree / "folder" / "fifo")
    told = json.dumps({"places": [], "homes": [], "known": [], "chosen": [], "expected": 3})
    words = ["place", "0" * 32, "replace", told, base64.b64encode(bytes(destination)).decode()]

    ran = subprocess.run([sys.executable, "-I", "-S", "-c", placing_script(), *words], capture_output=True, check=False)

    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert [(item["path"], item["reason"]) for item in answer["foreign"]] == [("direct", OUTSIDE_HARD_LINK)]
    assert answer["files_restored"] == 3
    check(victim, destination)
    assert list((destination / "folder").iterdir()) == [], "no FIFO is restored"


def test_unpacking_a_stream_never_links_to_an_outside_file(tmp_path: Path, victim: Path) -> None:
    """The stream that an ssh machine and an agent unpack."""
    tree = tmp_path / "tree"
    tree.mkdir()
    told: list[bytes] = []

    descriptor = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
    Unpacker(descriptor, lambda path, _reason: told.append(path)).unpack(io.BytesIO(hostile_tar()))
    os.close(descriptor)

    assert sorted(told) == [b"direct", b"missing/x", b"through"]
    assert victim.stat().st_nlink == 1
    assert sorted(path.name for path in tree.iterdir()) == ["file", "honest", "up"], "and no folder for it"


def test_an_agent_that_receives_files_names_the_links_it_did_not_create(tmp_path: Path, victim: Path) -> None:
    listed = [
        {"path": name, "type": kind, "size": size, **({"hard_link": True} if name in LINKS else {})}
        for name, kind, size in (
            *(("file", "-", 6), ("up", "l", 2)),
            *(("direct", "-", 0), ("through", "-", 0), ("honest", "-", 0), ("missing/x", "-", 0)),
        )
    ]
    survey = {"files": 6, "size": 6, "listed": listed}
    stream = frame(SURVEY, json.dumps(survey).encode()) + frame(DATA, hostile_tar())
    stream += frame(END, json.dumps({"status": "completed"}).encode())
    destination = tmp_path / "destination"

    ended = run_restore(tmp_path, tmp_path / "none", "any", destination, program=OLDER, stream=stream)

    assert isinstance(ended, Failed)
    assert sorted(item["path"] for item in ended.details["failed"]) == ["direct", "missing/x", "through"]
    check(victim, destination)


LINKS = ("direct", "through", "honest", "missing/x")


def hostile_tar() -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        entry = tarfile.TarInfo("file")
        entry.size = 6
        tar.addfile(entry, io.BytesIO(b"honest"))
        for name, kind, target in (
            ("direct", tarfile.LNKTYPE, "../victim"),
            ("up", tarfile.SYMTYPE, ".."),
            ("through", tarfile.LNKTYPE, "up/victim"),
            ("honest", tarfile.LNKTYPE, "file"),
            ("missing/x", tarfile.LNKTYPE, "nowhere/at/all"),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, target
            tar.addfile(entry)
    return written.getvalue()


def test_removing_entries_from_a_tree_preserves_the_times_of_its_folders(tmp_path: Path, victim: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    os.link(victim, tree / "a" / "b" / "one")
    os.link(victim, tree / "two")
    os.utime(tree / "a" / "b", ns=(5, 5))
    descriptor = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)

    found = remove_unrestorable(descriptor)
    os.close(descriptor)

    assert sorted(path for path, _ in found.outside_links) == [b"a/b/one", b"two"]
    assert (tree / "a" / "b").stat().st_mtime_ns == 5
    assert victim.stat().st_nlink == 1
