"""A reader of 64 bytes every 5 seconds blocked a backup indefinitely; 40 unread downloads ran 40 engines in 2.2 GB."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.downloads.download_limits import DownloadLimits
from holdfast.downloads.pace import WINDOW_SECONDS, Pace
from holdfast.errors import TooManyRequests, Unavailable
from holdfast.settings import Settings
from tests.contract.fields import error_of
from tests.support.service import PATIENCE, Client, ServiceProcess, wait_until

LARGE = 48 * 1024 * 1024


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_reader_of_a_few_bytes_at_a_time_is_too_slow_within_two_minutes() -> None:
    clock = Clock()
    pace = Pace(8192, clock)
    began = clock.now
    for _ in range(1000):
        allowed = pace.begin(64)
        if allowed < 5:
            break
        clock.now += 5
        pace.end(64)

    assert clock.now - began < 2 * WINDOW_SECONDS
    assert pace.rate() < 20


def test_a_slow_engine_is_not_counted_against_the_reader() -> None:
    clock = Clock()
    pace = Pace(8192, clock)
    for _ in range(100):
        clock.now += 60  # the engine takes its time
        assert pace.begin(1000) > WINDOW_SECONDS / 2
        clock.now += 0.001
        pace.end(1000)

    assert pace.rate() > 8192


def test_a_readers_pause_is_forgiven_once_it_resumes_reading() -> None:
    clock = Clock()
    pace = Pace(1000, clock)
    for _ in range(50):
        assert pace.begin(100_000) > 50
        clock.now += 50
        pace.end(100_000)


def test_downloads_are_limited_per_user_and_in_total(tmp_path: Path) -> None:
    turns = DownloadLimits(Settings(data_dir=tmp_path, downloads=3, downloads_per_user=2))

    with turns.turn(1), turns.turn(1):
        with pytest.raises(TooManyRequests) as own, turns.turn(1):
            pass
        with turns.turn(2), pytest.raises(Unavailable) as others, turns.turn(3):
            pass
    with turns.turn(1), turns.turn(1):
        assert own.value.retry_after
        assert others.value.retry_after


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    bounds = {
        "HOLDFAST_DOWNLOADS_PER_USER": "2",
        "HOLDFAST_DOWNLOAD_GIVES_WAY_SECONDS": "0.5",
        "HOLDFAST_DOWNLOAD_SLOW_BYTES_PER_SECOND": str(10**12),
        "HOLDFAST_EVENT_STREAMS_PER_USER": "2",
    }
    service = ServiceProcess(tmp_path_factory.mktemp("downloads") / "data", bounds)
    try:
        yield service.start()
    finally:
        service.stop()


@pytest.fixture(scope="module")
def admin(service: ServiceProcess) -> Client:
    return service.client().login()


@pytest.fixture(scope="module")
def repository(service: ServiceProcess, admin: Client, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    source = tmp_path_factory.mktemp("source")
    (source / "large").write_bytes(os.urandom(LARGE))
    made = admin.create_repository(source.parent / "repository", [source], encryption="none", passphrase=None)
    assert admin.wait_for_end(admin.start_backup(made))["status"] == "completed"
    archives = wait_until(lambda: admin.get(f"/api/repositories/{made['id']}/archives/live").json()["archives"])
    found = wait_until(
        lambda: admin.get(f"/api/repositories/{made['id']}/archives").json()["archives"], what="the archive is known"
    )
    assert len(archives) == 1
    return {**made, "archive": found[0], "source": str(source)}


def unread(service: ServiceProcess, admin: Client, path: str) -> socket.socket:
    """A request whose response is not read, on a connection with a small receive buffer."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(PATIENCE)
    connection.connect(("127.0.0.1", service.port))
    credential = admin.headers["X-Backup-Authorization"]
    connection.send(f"GET {path} HTTP/1.1\r\nHost: here\r\nX-Backup-Authorization: {credential}\r\n\r\n".encode())
    return connection


def head_of(connection: socket.socket) -> bytes:
    """The head of the response, and not a byte more."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(1)
    return head


def rest_of(connection: socket.socket) -> bytes:
    found = bytearray()
    try:
        while piece := connection.recv(65536):
            found += piece
    except ConnectionError:
        pass
    return bytes(found)


@pytest.mark.parametrize("what", ["download?format=tar", "files?path={path}"])
def test_a_backup_ends_an_unread_download_whose_response_is_then_visibly_incomplete(
    service: ServiceProcess, admin: Client, repository: dict[str, Any], what: str
) -> None:
    path = repository["source"].lstrip("/") + "/large"
    url = f"/api/repositories/{repository['id']}/archives/{repository['archive']['id']}/{what.format(path=path)}"
    download = unread(service, admin, url)
    head = head_of(download).lower()
    assert head.startswith(b"http/1.1 200")

    backup = admin.wait_for_end(admin.start_backup(repository))

    assert backup["status"] == "completed"
    sent = rest_of(download)
    assert len(sent) < LARGE
    if b"content-length" in head:
        assert f"content-length: {LARGE}".encode() in head
    else:
        assert not sent.endswith(b"0\r\n\r\n")
    download.close()
    assert "Traceback" not in service.own_log()


def test_unread_downloads_never_run_more_engines_than_allowed(
    service: ServiceProcess, admin: Client, repository: dict[str, Any]
) -> None:
    url = f"/api/repositories/{repository['id']}/archives/{repository['archive']['id']}/download"
    held = [unread(service, admin, url) for _ in range(2)]
    for connection in held:
        assert head_of(connection).startswith(b"HTTP/1.1 200")

    answers = [admin.get(url) for _ in range(5)]

    assert {error_of(answer) for answer in answers} == {(429, "restore.too_many_downloads")}
    assert all(int(answer.headers["Retry-After"]) > 0 for answer in answers)
    unknown = admin.get(f"/api/repositories/{repository['id']}/archives/999999/download")
    assert unknown.status_code == 429, "refused before the store is asked for the archive"
    for connection in held:
        connection.close()

    def served() -> bool:
        with admin.stream("GET", url) as answer:
            return answer.status_code == 200

    wait_until(served, what="whoever left has made room")


def test_event_streams_are_limited_per_user(service: ServiceProcess, admin: Client) -> None:
    held = [unread(service, admin, "/api/events/stream") for _ in range(2)]
    for connection in held:
        assert head_of(connection).startswith(b"HTTP/1.1 200")

    answer = admin.get("/api/events/stream")

    assert error_of(answer) == (429, "events.too_many_streams")
    assert int(answer.headers["Retry-After"]) > 0
    for connection in held:
        connection.close()
