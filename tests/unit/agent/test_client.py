"""HTTP to the service: one connection and clear errors."""

import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from backup_agent import client as client_module
from backup_agent import plain_names
from backup_agent.client import Client, InvalidAddress, NoAnswer, NotAllowed, Refusal, TooLarge, Unknown
from tests.support.refusing_proxy import refusing_proxy
from tests.support.service import PATIENCE
from tests.support.tls import own_certificate
from tests.unit.agent.in_test_service import Answer, Request, in_test_service


def detail(key: str, message: str) -> dict[str, object]:
    return {"detail": {"key": key, "message": message, "params": {}}}


def test_requests_share_one_connection_and_carry_the_credential() -> None:
    with in_test_service(lambda request: Answer(body={"path": request.path})) as service:
        client = Client(f"{service.url}/below/", "bk_agent_x")

        assert client.call("GET", "/one") == {"path": "/below/one"}
        assert client.call("POST", "/two", {"a": 1}) == {"path": "/below/two"}

    first, second = service.requests
    assert first.connection == second.connection
    assert first.headers["x-backup-agent-authorization"] == "Bearer bk_agent_x"
    assert "authorization" not in first.headers
    assert second.body == {"a": 1}


def test_a_connection_closed_by_the_service_is_reopened() -> None:
    def script(request: Request) -> Answer:
        return Answer(hang_up=request.path == "/second" and len(service.requests) == 2)

    with in_test_service(script) as service:
        client = Client(service.url)
        client.call("GET", "/first")

        client.call("POST", "/second", {})

    assert service.paths() == ["/first", "/second", "/second"]


def test_a_request_that_must_not_be_repeated_is_sent_once() -> None:
    with in_test_service(lambda request: Answer(hang_up=request.path == "/register")) as service:
        client = Client(service.url)
        client.call("GET", "/first")

        with pytest.raises(NoAnswer) as failure:
            client.call("POST", "/register", {}, repeat=False)

    assert failure.value.was_sent
    assert service.paths() == ["/first", "/register"]


def test_a_request_to_an_unreachable_service_is_reported_as_not_sent() -> None:
    with in_test_service(lambda _request: Answer()) as service:
        url = service.url
    with pytest.raises(NoAnswer, match="cannot be reached") as failure:
        Client(url).call("GET", "/")
    assert not failure.value.was_sent


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, NotAllowed), (403, NotAllowed), (404, Unknown), (409, Refusal), (413, Refusal), (422, Refusal)],
)
def test_a_refusal_by_the_service_keeps_its_key_and_message(status: int, kind: type[Refusal]) -> None:
    answer = Answer(status, detail("agents.some_key", "A sentence."))
    with in_test_service(lambda _request: answer) as service, pytest.raises(kind, match="A sentence") as refusal:
        Client(service.url).call("GET", "/")

    assert (refusal.value.key, refusal.value.http_status) == ("agents.some_key", status)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(408, detail("api.request_too_slow", "too slow")),
        Answer(500, detail("x", "broken")),
        Answer(503, detail("x", "later"), {"Retry-After": "7"}),
        Answer(429, detail("x", "slowly"), {"Retry-After": "7"}),
        Answer(403, raw=b"<html>a proxy forbids it</html>"),
        Answer(404, body={"message": "no such page"}),
        Answer(200, raw=b"<html>log in to the airport's network</html>"),
    ],
)
def test_server_errors_and_foreign_responses_count_as_no_response(answer: Answer) -> None:
    with in_test_service(lambda _request: answer) as service, pytest.raises(NoAnswer) as failure:
        Client(service.url).call("GET", "/")

    assert failure.value.retry_after == float(answer.headers.get("Retry-After", 0))


@pytest.mark.parametrize("address", ["", "backup.example.org", "ftp://x", "https://", "http://x:port"])
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidAddress):
        Client(address)


def test_requests_use_the_proxy_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with in_test_service(lambda request: Answer(407 if request.method == "CONNECT" else 200)) as proxy:
        address = proxy.url.replace("http://", "http://anna:secret@")
        monkeypatch.setenv("http_proxy", address)
        monkeypatch.setenv("https_proxy", address)
        assert Client("http://service.invalid:81/below", "bk_agent_x").call("GET", "/one") == {}
        with pytest.raises(NoAnswer, match="407"):
            Client("https://service.invalid", "bk_agent_x").call("GET", "/one")

    plain, tunnel = proxy.requests
    assert (plain.path, plain.headers["host"]) == ("http://service.invalid:81/below/one", "service.invalid:81")
    assert tunnel.path == "service.invalid:443"
    assert "x-backup-agent-authorization" not in tunnel.headers, "the credential is for the service alone"
    assert {request.headers["proxy-authorization"] for request in proxy.requests} == {"Basic YW5uYTpzZWNyZXQ="}


def test_a_waiting_request_can_be_interrupted() -> None:
    arrived, over = threading.Event(), threading.Event()

    def script(request: Request) -> Answer:
        arrived.set()
        over.wait(PATIENCE)
        return Answer()

    with in_test_service(script) as service:
        client = Client(service.url)
        ended: list[BaseException] = []

        def ask() -> None:
            try:
                client.call("GET", "/poll")
            except NoAnswer as failure:
                ended.append(failure)

        thread = threading.Thread(target=ask)
        thread.start()
        assert arrived.wait(PATIENCE)
        client.interrupt()
        thread.join(PATIENCE)
        over.set()

    assert len(ended) == 1


def test_a_certificate_is_verified_and_a_private_authority_can_be_named(tmp_path: Path) -> None:
    certificate = own_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, tmp_path / "key.pem")
    with in_test_service(
        lambda _request: Answer(), lambda socket: context.wrap_socket(socket, server_side=True)
    ) as service:
        with pytest.raises(NoAnswer, match="certificate"):
            Client(service.url).call("GET", "/")
        assert Client(service.url, ca_file=str(certificate)).call("GET", "/") == {}
        with pytest.raises(NoAnswer, match="certificate"):
            Client(service.url.replace("localhost", "127.0.0.1"), ca_file=str(certificate)).call("GET", "/")


def test_system_authorities_are_looked_up_by_hash_if_all_of_them_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = own_certificate(tmp_path)
    folder = tmp_path / "authorities"
    folder.mkdir()
    name = subprocess.run(
        ["openssl", "x509", "-noout", "-hash", "-in", certificate], check=True, capture_output=True, text=True
    ).stdout.strip()
    (folder / f"{name}.0").symlink_to(certificate)
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, tmp_path / "key.pem")

    with in_test_service(
        lambda _request: Answer(), lambda socket: context.wrap_socket(socket, server_side=True)
    ) as service:
        monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: verify_paths(None, folder))
        assert client_module._hashed_authorities() == str(folder)
        assert Client(service.url).call("GET", "/") == {}

        both = tmp_path / "both.pem"
        both.write_bytes(certificate.read_bytes() * 2)
        monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: verify_paths(both, folder))
        assert client_module._hashed_authorities() is None, "one of the two has no hash"


def verify_paths(file: Path | None, folder: Path) -> ssl.DefaultVerifyPaths:
    return ssl.DefaultVerifyPaths(
        str(file) if file else None, str(folder), "SSL_CERT_FILE_OF_NOBODY", "", "SSL_CERT_DIR", ""
    )


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_proxy_that_refuses_a_large_body_is_named_as_the_cause(is_streamed: bool) -> None:
    with (
        in_test_service(lambda _: Answer(body={})) as service,
        refusing_proxy(int(service.url.rpartition(":")[2]), 1000) as address,
    ):
        client = Client(address)
        assert client.call("POST", "/small", {"a": 1}) == {}

        def send() -> None:
            if is_streamed:
                client.send("/large", (b"x" * 600 for _ in range(1_000_000)), PATIENCE)
            else:
                client.call("POST", "/large", {"a": "x" * 2000})

        with pytest.raises(TooLarge, match="client_max_body_size") as refusal:
            send()

    assert refusal.value.key == "agents.body_refused"
    assert service.paths() == ["/small"]


class SlowLink:
    """Receives one request, a piece at a time, then answers."""

    def __init__(self, piece_bytes: int, pause: float) -> None:
        self._piece_bytes, self._pause = piece_bytes, pause
        self._listening = socket.create_server(("localhost", 0))
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.url = f"http://localhost:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        link, _ = self._listening.accept()
        with self._listening, link:
            while (block := link.recv(self._piece_bytes)) and not block.endswith(b"}"):
                time.sleep(self._pause)
            link.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")


def test_a_large_body_over_a_slow_link_has_a_time_limit_for_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_names, "connect_by_plain_name", narrow(plain_names.connect_by_plain_name))
    slow = SlowLink(4096, 0.01)
    began, seconds = time.monotonic(), 1.0

    assert Client(slow.url).call("POST", "/x", {"lines": "x" * 700_000}, seconds=seconds) == {}

    assert time.monotonic() - began > seconds, "the whole body took longer than the limit"


def narrow(connect: Any) -> Any:
    """Keep the buffer of a socket small, as the kernel does on a slow link."""

    def connected(*arguments: Any, **more: Any) -> socket.socket:
        made: socket.socket = connect(*arguments, **more)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return made

    return connected
