"""Downloads from an archive: exact, streamed, and never mistaken for complete when they are not."""

import base64
import io
import os
import random
import signal
import socket
import stat
import tarfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from holdfast.downloads.entry_filter import MANIFEST
from tests.real.restore.archives import Archive, Workshop, without
from tests.support.running import processes_with, wait_until_no_process_with
from tests.support.service import wait_until
from tests.support.trees import FIFO, LEADING_OUT, LINES_IN_NAME, LONG_NAME, NOT_UTF8, look_at

LARGE = 300 << 20
SLOWLY_READ = 6 << 20
"""Too much for the buffers of the connection: the last part is still in the engine's pipe when the engine ends."""
LAST_CHUNK = b"\r\n0\r\n\r\n"
PAUSE_EVERY, PAUSE_SECONDS = 256 << 10, 0.25


def route(workshop: Workshop, archive: Archive, what: str) -> str:
    return f"/api/repositories/{archive.repository['id']}/archives/{workshop.archive_id(archive)}/{what}"


def as_stored(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
    return member


@pytest.mark.parametrize("name", [b"plain.txt", b"empty", b"random.bin", NOT_UTF8, LINES_IN_NAME, LONG_NAME, b"third"])
def test_a_file_is_downloaded_byte_for_byte(workshop: Workshop, name: bytes) -> None:
    source, archive = workshop.difficult
    path = os.fsencode(source) + b"/" + name

    answer = workshop.running.admin.get(
        route(workshop, archive, "files"), params={"path_b64": base64.b64encode(path).decode()}
    )

    content = Path(os.fsdecode(path)).read_bytes()
    assert answer.status_code == 200
    assert answer.content == content
    assert answer.headers["content-length"] == str(len(content))
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment; filename=")


def test_the_file_name_of_a_download_is_sent_in_both_forms(newest: Workshop) -> None:
    source, archive = newest.difficult

    answer = newest.running.admin.get(route(newest, archive, "files"), params={"path": str(source / "ünï")})

    assert answer.headers["content-disposition"] == "attachment; filename=\"_n_\"; filename*=UTF-8''%C3%BCn%C3%AF"


def test_a_folder_is_downloaded_as_tar_with_all_its_contents(workshop: Workshop, tmp_path: Path) -> None:
    source, archive = workshop.difficult

    answer = workshop.running.admin.get(route(workshop, archive, "download"), params={"path": str(source)})

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-tar"
    assert answer.headers["content-disposition"] == 'attachment; filename="difficult.tar"'
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as found:
        found.extraction_filter = as_stored  # an attribute, because Python 3.11.2 has no argument for it
        found.extractall(tmp_path)
    restored, wanted = look_at(tmp_path / "difficult"), without(look_at(source), *LEADING_OUT)
    assert "/etc/hostname" in (tmp_path / MANIFEST).read_text()
    assert restored.keys() == wanted.keys()
    assert {path: (seen.content, seen.target, seen.mode) for path, seen in restored.items()} == {
        path: (seen.content, seen.target, seen.mode) for path, seen in wanted.items()
    }


def test_a_folder_is_downloaded_as_zip_with_everything_that_a_zip_can_contain(workshop: Workshop) -> None:
    source, archive = workshop.difficult

    answer = workshop.running.admin.get(
        route(workshop, archive, "download"), params={"path": str(source), "format": "zip"}
    )

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/zip"
    wanted = without(look_at(source), FIFO, *LEADING_OUT)
    with zipfile.ZipFile(io.BytesIO(answer.content)) as found:
        assert found.testzip() is None
        held = {_bytes_of(info).rstrip(b"/"): info for info in found.infolist()}
        names = {b"difficult" + (b"/" + path if path else b"") for path in wanted}
        assert held.keys() == {*names, MANIFEST.encode()}
        for path, seen in wanted.items():
            if seen.content is not None:
                first = _first_of_its_names(found, held, path)
                assert first in seen.names  # whichever name the engine archived first
                with open(os.fsencode(source) + b"/" + path, "rb") as file:
                    assert found.read(held[b"difficult/" + first]) == file.read()
        assert found.read(held[b"difficult/links/relative"]) == b"../plain.txt"


def _first_of_its_names(found: zipfile.ZipFile, held: dict[bytes, zipfile.ZipInfo], path: bytes) -> bytes:
    """Return the path itself if it is a file in the zip, otherwise the path that its link points to."""
    info = held[b"difficult/" + path]
    if not stat.S_ISLNK(info.external_attr >> 16):
        return path
    return os.path.normpath(os.path.join(os.path.dirname(path), found.read(info)))


def _bytes_of(info: zipfile.ZipInfo) -> bytes:
    return info.filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437")


def test_a_download_without_a_path_contains_the_whole_archive(newest: Workshop) -> None:
    source, archive = newest.difficult

    answer = newest.running.admin.get(route(newest, archive, "download"))

    with tarfile.open(fileobj=io.BytesIO(answer.content)) as found:
        assert str(source / "plain.txt")[1:] in found.getnames()
    assert archive.name in answer.headers["content-disposition"]


@pytest.mark.parametrize(
    ("what", "name", "more", "status", "key"),
    [
        ("files", "nowhere", {}, 404, "archives.path_not_found"),
        ("files", "links", {}, 422, "archives.not_a_file"),
        ("files", "links/dangling", {}, 422, "archives.not_a_file"),
        ("files", "", {}, 422, "archives.not_a_file"),
        ("files", "fifo", {}, 422, "archives.not_a_file"),
        ("download", "nowhere", {}, 404, "archives.path_not_found"),
        ("download", "nowhere", {"format": "zip"}, 404, "archives.path_not_found"),
        ("download", "../up", {}, 422, "restore.bad_path"),
    ],
)
def test_an_invalid_download_is_refused_before_the_first_byte(
    newest: Workshop, what: str, name: str, more: dict[str, str], status: int, key: str
) -> None:
    source, archive = newest.difficult
    params = {"path": f"{source}/{name}", **more}

    answer = newest.running.admin.get(route(newest, archive, what), params=params)

    assert (answer.status_code, answer.json()["detail"]["key"]) == (status, key)
    wait_until(lambda: newest.lane_is_free(archive), what="the lane is free")


# --- large downloads -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large_archives() -> dict[int, tuple[Path, Archive]]:
    return {}


@pytest.fixture
def large(newest: Workshop, large_archives: dict[int, tuple[Path, Archive]]) -> tuple[Path, Archive]:
    """A folder that takes a while to send."""
    if id(newest) not in large_archives:
        folder = newest.running.folder / "large"
        folder.mkdir()
        generator = random.Random(7)
        block = generator.randbytes(1 << 20)
        for number in range(3):
            with (folder / f"file-{number}").open("wb") as file:
                for _ in range(LARGE >> 20):
                    if _ % 3 == number:
                        file.write(block[:-8] + generator.randbytes(8))
        large_archives[id(newest)] = folder, newest.back_up(folder)
    return large_archives[id(newest)]


def resident(workshop: Workshop) -> int:
    assert workshop.running.process.process is not None
    size: int = psutil.Process(workshop.running.process.process.pid).memory_info().rss
    return size


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.parametrize("form", ["tar", "zip"])
def test_a_download_of_a_large_folder_takes_little_memory(
    newest: Workshop, large: tuple[Path, Archive], form: str
) -> None:
    folder, archive = large
    newest.running.admin.get(route(newest, archive, "download"), params={"path": "nowhere"})
    before = highest = resident(newest)
    received = 0

    with newest.running.admin.stream(
        "GET", route(newest, archive, "download"), params={"path": str(folder), "format": form}
    ) as answer:
        for block in answer.iter_raw(1 << 20):
            received += len(block)
            highest = max(highest, resident(newest))

    assert received > LARGE * 0.9
    assert highest - before < 50 << 20


@contextmanager
def raw_download(workshop: Workshop, archive: Archive, folder: Path) -> Iterator[socket.socket]:
    """A connection that has received the beginning of a download and reads nothing further on its own."""
    path = f"{route(workshop, archive, 'download')}?path={folder}"
    credential = workshop.running.admin.headers["X-Backup-Authorization"]
    with socket.create_connection(("127.0.0.1", workshop.running.process.port)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        request = f"GET {path} HTTP/1.1\r\nHost: x\r\nX-Backup-Authorization: {credential}\r\n\r\n"
        connection.sendall(request.encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        yield connection


def engine_of(archive: Archive) -> int:
    """The engine that writes the tar stream. Its shim does not match: that one names the spool, not the repository."""
    wanted = f"{archive.repository['path']}::{archive.name}"
    return wait_until(lambda: next(iter(processes_with(wanted)), None), what="the engine runs")


def test_a_client_that_disconnects_stops_the_engine_and_frees_the_lane(
    newest: Workshop, large: tuple[Path, Archive]
) -> None:
    folder, archive = large
    with raw_download(newest, archive, folder) as connection:
        engine_of(archive)
        assert not newest.lane_is_free(archive)
        connection.close()

        wait_until_no_process_with(f"{archive.repository['path']}::{archive.name}")
        wait_until(lambda: newest.lane_is_free(archive), what="the lane is free")


def test_an_engine_that_dies_in_the_middle_aborts_the_connection(newest: Workshop, large: tuple[Path, Archive]) -> None:
    folder, archive = large
    with raw_download(newest, archive, folder) as connection:
        os.kill(engine_of(archive), signal.SIGKILL)
        received = b""
        while block := connection.recv(1 << 20):
            received = (received + block)[-64:]

        assert not received.endswith(LAST_CHUNK), "the answer looks complete"
    wait_until(lambda: newest.lane_is_free(archive), what="the lane is free")


def test_a_file_is_cut_short_of_its_announced_size_when_its_engine_dies(
    newest: Workshop, large: tuple[Path, Archive]
) -> None:
    folder, archive = large
    path = f"{route(newest, archive, 'files')}?path={folder / 'file-0'}"
    credential = newest.running.admin.headers["X-Backup-Authorization"]
    with socket.create_connection(("127.0.0.1", newest.running.process.port)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nX-Backup-Authorization: {credential}\r\n\r\n".encode())
        head = connection.recv(4096)
        os.kill(engine_of(archive), signal.SIGKILL)
        received = len(head.partition(b"\r\n\r\n")[2])
        while block := connection.recv(1 << 20):
            received += len(block)

    assert f"content-length: {(folder / 'file-0').stat().st_size}".encode() in head.lower()
    assert received < (folder / "file-0").stat().st_size


def test_a_client_that_reads_slowly_gets_the_whole_download_long_after_its_engine_has_ended(newest: Workshop) -> None:
    folder = newest.running.folder / newest.running.new_name("slow")
    folder.mkdir()
    (folder / "file").write_bytes(random.Random(8).randbytes(SLOWLY_READ))
    archive = newest.back_up(folder)
    end, received = b"", 0

    with raw_download(newest, archive, folder) as connection:
        while not end.endswith(LAST_CHUNK) and (block := connection.recv(128 << 10)):
            if (received + len(block)) // PAUSE_EVERY > received // PAUSE_EVERY:
                time.sleep(PAUSE_SECONDS)
            end, received = (end + block)[-64:], received + len(block)

    assert end.endswith(LAST_CHUNK), "the answer was broken off"
    wait_until(lambda: newest.lane_is_free(archive), what="the lane is free")


def test_a_download_blocks_a_backup_but_not_a_restore(
    newest: Workshop, large: tuple[Path, Archive], tmp_path: Path
) -> None:
    folder, archive = large
    with raw_download(newest, archive, folder):
        backup = newest.running.admin.start_backup(archive.repository, source_paths=[str(tmp_path)])
        waiting = newest.running.admin.operation(backup)
        assert (waiting["status"], waiting["queued_reason"]) == ("pending", "repository_busy")
        newest.running.admin.post(f"/api/backup/cancel/{backup}")
        restore = newest.start(archive, tmp_path / "out", paths=[str(folder / "nowhere")])
        assert newest.running.admin.wait_for_end(restore)["error_key"] == "archives.path_not_found"
