"""Each kind of destination against a real receiver: signatures, certificates, deadlines, refused addresses."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import WebhookVerificationError

from holdfast.errors import Unprocessable
from holdfast.kit import clock
from holdfast.notifications.deliver import addresses, apprise_child, http_request, ping, smtp, webhook
from holdfast.notifications.deliver.result import Result
from holdfast.notifications.destinations import Destinations
from holdfast.notifications.schemas import DestinationChange, DestinationOptions
from holdfast.schedules.models import Schedule, ScheduleRun
from holdfast.schedules.running import final_states
from tests.support.mail import MailServer, mail_server
from tests.support.receivers import WebReceiver, dripping_receiver
from tests.support.stores import a_store
from tests.support.tls import own_certificate
from tests.unit.notifications.world import ADMIN, SECRET, World, at

A_LONG_TLS_RECORD = b"\x16\x03\x03\x40\x00"
BODY = {"subject": "Backup failed", "text": "It broke.\n", "html": "<b>It broke.</b>", "payload": '{"type":"test"}'}
HOSTILE = "evil\r\nBcc: everybody@example.org\n<script>alert(1)</script>\u202e\u2066@everyone" + "x" * 10_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with a_store("sqlite", tmp_path) as database:
        yield World(database, tmp_path)


# --- webhooks ---------------------------------------------------------------------------------------------------------


def test_a_webhook_signature_verifies_only_with_its_own_secret(receiver: WebReceiver) -> None:
    assert webhook.send({"url": receiver.url}, {"secret": SECRET}, BODY, "abc").ok

    (got,) = receiver.received
    assert got.id == "msg_abc"
    assert got.verified(SECRET) == {"type": "test"}
    with pytest.raises(WebhookVerificationError):
        got.verified(webhook.new_secret())


def test_both_secrets_sign_during_a_rotation(world: World, receiver: WebReceiver) -> None:
    from holdfast.notifications import edit

    destination = world.webhook(receiver.url)
    rotate = DestinationChange(options=DestinationOptions(rotate_secret=True))
    with world.database.writing() as session:
        _, new = edit.change_destination(session, ADMIN, world.notifications.destinations, destination, rotate)
    assert new is not None
    world.notifications.test(destination)
    retire = DestinationChange(options=DestinationOptions(retire_secret=True))
    with world.database.writing() as session:
        edit.change_destination(session, ADMIN, world.notifications.destinations, destination, retire)
    world.notifications.test(destination)

    during, after = receiver.received
    assert during.verified(SECRET)["type"] == during.verified(new)["type"] == "test"
    after.verified(new)
    with pytest.raises(WebhookVerificationError):
        after.verified(SECRET)


def test_a_redirect_is_not_followed(receiver: WebReceiver) -> None:
    receiver.answer = lambda _got: (302, {"Location": f"http://127.0.0.1:{receiver.port}/elsewhere"})

    result = webhook.send({"url": receiver.url}, {"secret": SECRET}, BODY, "abc")

    assert not result.ok
    assert "redirects are not followed" in result.message
    assert receiver.received == []


def test_a_stalled_receiver_is_abandoned_in_time(receiver: WebReceiver) -> None:
    receiver.stall = threading.Event()

    result = http_request.post(receiver.url, b"", {}, seconds=0.3)

    assert not result.ok
    assert result.message == "No response within 0 seconds."


def test_a_receiver_that_sends_a_byte_at_a_time_is_abandoned_in_time() -> None:
    with dripping_receiver() as port:
        result = http_request.post(f"http://127.0.0.1:{port}/", b"", {}, seconds=0.5)

    assert not result.ok
    assert "No response within" in result.message


def send_webhook(port: int) -> Result:
    return http_request.post(f"https://localhost:{port}/", b"", {}, seconds=0.5)


def send_mail(port: int) -> Result:
    wanted = {"host": "localhost", "port": port, "security": "tls", "from": "a@example.org", "to": ["b@example.org"]}
    return smtp.send(wanted, {}, BODY, "abc")


@pytest.mark.parametrize("send", [send_webhook, send_mail])
def test_a_tls_handshake_that_never_ends_is_abandoned_in_time(
    monkeypatch: pytest.MonkeyPatch, send: Callable[[int], Result]
) -> None:
    monkeypatch.setattr(smtp, "SECONDS", 0.5)
    with dripping_receiver(A_LONG_TLS_RECORD) as port:
        result = send(port)

    assert not result.ok
    assert "No response within" in result.message


def test_a_name_that_is_not_resolved_in_time_ends_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    stalled = threading.Event()

    def look_up(*_: Any, **__: Any) -> list[Any]:
        stalled.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    try:
        result = http_request.post("http://slow.example/", b"", {}, seconds=0.2)
    finally:
        stalled.set()

    assert "No response within" in result.message


def test_the_addresses_of_a_name_share_the_time_for_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the last drop packets, so that connecting to them takes all the time that each is given."""
    places = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{number}", 25)) for number in range(1, 9)]
    tried: list[str] = []
    now = 0.0

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        nonlocal now
        tried.append(address[0])
        if address[0] == "127.0.0.8":
            return socket.socket()
        now += timeout
        raise TimeoutError

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: places)
    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setattr(addresses, "monotonic", lambda: now)
    with addresses.connect("mail.example", 25, 16.0) as connection:
        assert connection.gettimeout() == pytest.approx(2.0)

    assert len(tried) == 8


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "169.254.1.1", "fe80::1", "fd00:ec2::254", "100.100.100.200", "0.0.0.0", "224.0.0.1"),
        *("::ffff:169.254.169.254", "::", "ff02::1", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "255.255.255.255"),
    ],
)
def test_link_local_metadata_and_multicast_addresses_are_refused(address: str) -> None:
    assert addresses.is_refused(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "192.168.1.10", "10.0.0.1", "93.184.216.34", "::1", "2606:4700::1"])
def test_other_addresses_are_not_refused(address: str) -> None:
    assert not addresses.is_refused(address)


def test_a_name_that_resolves_to_a_metadata_address_is_refused(
    receiver: WebReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rebound(host: str, port: int, **_more: Any) -> list[Any]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ("127.0.0.1", "169.254.169.254")
        ]

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    result = webhook.send({"url": f"http://harmless.example:{receiver.port}/"}, {"secret": SECRET}, BODY, "abc")

    assert not result.ok
    assert "messages cannot be sent there" in result.message
    assert receiver.received == []


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://example.org/", "http://", "http://169.254.169.254/latest", "http://[fe80::1]/", "example.org"),
        *(
            "http://user:pass@example.org/",
            "http://example.org/#x",
            "http://exa mple.org/",
            "http://example.org:99999/",
        ),
        *("file:///etc/passwd", "http://example.org/\r\nX: y"),
    ],
)
def test_invalid_addresses_are_refused_when_entered(world: World, url: str) -> None:
    with pytest.raises(Unprocessable):
        world.webhook(url)


@pytest.mark.parametrize("url", ["http://example.org:99999/", "http://[::1/"])
def test_an_address_that_cannot_be_parsed_is_reported_as_an_invalid_url(world: World, url: str) -> None:
    with pytest.raises(Unprocessable, match=r"^This is not a valid URL\."):
        world.webhook(url)


# --- mail -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's TLS context whose certificate this process trusts."""
    certificate = own_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.load_cert_chain(certificate, tmp_path / "key.pem")
    return made


def options(server: MailServer, security: str, **more: Any) -> dict[str, Any]:
    place = {"host": "localhost", "port": server.port, "security": security}
    return {**place, "from": "holdfast@example.org", "to": ["admin@example.org"], **more}


def test_a_mail_arrives_with_text_html_and_its_delivery_id() -> None:
    with mail_server() as server:
        result = smtp.send(options(server, "none", host="127.0.0.1"), {}, BODY, "abc")

        assert result.ok, result.message
        (message,) = server.messages
    assert message["Subject"] == "Backup failed"
    assert message["Message-ID"] == "<abc@holdfast>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message.get_body(("plain",)).get_content().strip() == "It broke."  # type: ignore[union-attr]
    assert "<b>" in message.get_body(("html",)).get_content()  # type: ignore[union-attr]


@pytest.mark.parametrize(("security", "implicit"), [("starttls", False), ("tls", True)])
def test_a_mail_is_sent_over_tls_with_a_login(context: ssl.SSLContext, security: str, implicit: bool) -> None:
    with mail_server(context, implicit=implicit, password="right") as server:
        wanted = options(server, security, username="me")
        assert smtp.send(wanted, {"password": "right"}, BODY, "a").ok
        refused = smtp.send(wanted, {"password": "wrong"}, BODY, "b")

        assert not refused.ok
        assert "535" in refused.message
        assert len(server.messages) == 1


@pytest.mark.parametrize(("security", "implicit"), [("starttls", False), ("tls", True)])
def test_an_untrusted_certificate_is_refused(
    context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, security: str, implicit: bool
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with mail_server(context, implicit=implicit) as server:
        result = smtp.send(options(server, security), {}, BODY, "abc")

        assert not result.ok
        assert "not trusted" in result.message
        assert server.messages == []


def test_a_server_without_starttls_gets_no_mail() -> None:
    with mail_server() as server:
        result = smtp.send(options(server, "starttls", host="127.0.0.1"), {}, BODY, "abc")

        assert not result.ok
        assert server.messages == []


def test_a_refusal_by_the_mail_server_is_quoted() -> None:
    with mail_server() as server:
        server.refuse = "452 the disk is full"
        result = smtp.send(options(server, "none", host="127.0.0.1"), {}, BODY, "abc")

    assert (result.ok, "452" in result.message, "full" in result.message) == (False, True, True)


@pytest.mark.parametrize(
    ("command", "answer", "is_refused"),
    [
        ("handle_DATA", "452 the disk is full", False),
        ("handle_DATA", "554 not accepted", True),
        ("handle_RCPT", "450 try again later", False),
        ("handle_RCPT", "550 no such user", True),
        ("handle_MAIL", "550 this sender is not allowed", False),
    ],
)
def test_only_a_final_refusal_of_the_message_or_its_recipients_ends_it(
    monkeypatch: pytest.MonkeyPatch, command: str, answer: str, is_refused: bool
) -> None:
    async def refuse(*_: Any) -> str:
        return answer

    monkeypatch.setattr(MailServer, command, refuse, raising=False)
    with mail_server() as server:
        result = smtp.send(options(server, "none", host="127.0.0.1"), {}, BODY, "abc")

    code, words = answer.split(" ", 1)
    assert result == Result(ok=False, message=f"The mail server answered {code}: {words}.", is_refused=is_refused)


def test_a_password_is_never_sent_without_tls(world: World) -> None:
    with pytest.raises(Unprocessable):
        world.destination(
            *("mail", "smtp"), **{"from": "a@b", "to": ["c@d"]}, host="h", security="none", username="me", password="x"
        )


def test_hostile_names_inject_nothing_into_a_mail(world: World) -> None:
    """Line breaks, HTML, bidirectional marks and ten kilobytes, in a name and in an engine's message."""
    with mail_server() as server:
        place = {"host": "127.0.0.1", "port": server.port, "security": "none"}
        world.destination("mail", "smtp", **place, **{"from": "a@example.org"}, to=["b@example.org"])
        world.rule()
        world.ends("failed", name=HOSTILE[:190], error_message=HOSTILE)
        world.flow()

        (message,) = server.messages
        (envelope,) = server.envelopes
    assert envelope.rcpt_tos == ["b@example.org"]
    assert message["Bcc"] is None
    assert len(message["Subject"]) <= 180
    html = message.get_body(("html",)).get_content()  # type: ignore[union-attr]
    text = message.get_body(("plain",)).get_content()  # type: ignore[union-attr]
    assert "<script" not in html
    assert not {"\u202e", "\u2066"} & set(html + text + message["Subject"])
    assert len(text) < 3000
    assert not [line for line in text.splitlines() if line.startswith(("Bcc:", "<script"))]


# --- pings ------------------------------------------------------------------------------------------------------------


NIGHT, NEXT_NIGHT = at("2026-11-16T02:00:00+00:00"), at("2026-11-17T02:00:00+00:00")


def run_of(world: World, repository: int, run_id: str, *, due_at: datetime = NIGHT) -> int:
    """A run of schedule 3 for one repository begins."""
    values: dict[str, Any] = {"schedule_id": 3, "repository_id": repository, "run_id": run_id, "due_at": due_at}
    row = ScheduleRun(**values, start_at=due_at, revision=1, outcome="waiting")
    with world.database.writing() as session:
        session.add(row)
        session.flush()
        return row.id


def ends(
    world: World, repository: int, run_id: str, outcome: str, result: str | None = None, row_id: int | None = None
) -> None:
    """A run ends for one repository, and the outbox tells of it."""
    row_id = row_id or run_of(world, repository, run_id)
    with world.database.writing() as session:
        schedule, row = session.get_one(Schedule, 3), session.get_one(ScheduleRun, row_id)
        row.outcome, row.result, row.reason = outcome, result, "why"
        final_states.settle(session, schedule, row, clock.now())


def test_the_runs_of_a_schedule_are_pinged_at_start_and_end(world: World, receiver: WebReceiver) -> None:
    world.destination("check", "ping", url=f"http://127.0.0.1:{receiver.port}/ping/abc", schedule_id=3)
    for number, (outcome, result) in enumerate(
        [("ran", "completed"), ("ran", "failed"), ("missed", None), ("skipped", None)]
    ):
        run_id = f"{number}" * 32
        if outcome == "ran":
            world.ends("pending", schedule_id=3, run_id=run_id)
            world.ends("pending", kind="prune", schedule_id=3, run_id=run_id)
            world.ends("pending", schedule_id=4, run_id="f" * 32)
        world.flow()
        ends(world, number, run_id, outcome, result)
        world.flow()

    assert [each.path.split("?")[0] for each in receiver.received] == [
        *("/ping/abc/start", "/ping/abc", "/ping/abc/start", "/ping/abc/fail", "/ping/abc/fail", "/ping/abc/log"),
    ]
    assert receiver.received[0].path.endswith("?rid=00000000-0000-0000-0000-000000000000")
    assert receiver.received[1].path.split("rid=")[1] == receiver.received[0].path.split("rid=")[1]
    assert b"reason: why" in receiver.received[-1].body


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (("ran", "completed"), ("ran", "completed_with_warnings"), [""]),
        (("ran", "failed"), ("ran", "completed"), ["/fail"]),
        (("ran", "completed"), ("ran", "failed"), ["/fail"]),
        (("missed", None), ("ran", "completed"), ["/fail"]),
        (("ran", "completed"), ("skipped", None), ["/log", ""]),
        (("skipped", None), ("ran", "completed"), ["/log", ""]),
        (("skipped", None), ("skipped", None), ["/log", "/log"]),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_a_run_over_two_repositories_is_a_success_only_if_both_succeeded(
    world: World, receiver: WebReceiver, first: Any, second: Any, expected: list[str], together: bool
) -> None:
    world.destination("check", "ping", url=receiver.url, schedule_id=3)
    rows = {repository: run_of(world, repository, "a" * 32) for repository in (7, 8)}
    for repository, end in ((7, first), (8, second)):
        ends(world, repository, "a" * 32, *end, row_id=rows[repository])
        if not together:
            world.flow()
    world.flow()

    assert [each.path.split("?")[0] for each in receiver.received] == [f"/hook{action}" for action in expected]


def test_a_run_whose_rows_are_still_being_written_is_no_success_yet(world: World, receiver: WebReceiver) -> None:
    world.destination("check", "ping", url=receiver.url, schedule_id=3)
    written = run_of(world, 7, "a" * 32, due_at=NEXT_NIGHT)
    with world.database.writing() as session:
        session.get_one(Schedule, 3).next_due_at = NEXT_NIGHT
    ends(world, 7, "a" * 32, "ran", "completed", row_id=written)
    world.flow()
    assert receiver.received == []
    with world.database.writing() as session:
        session.get_one(Schedule, 3).next_due_at = NEXT_NIGHT + timedelta(days=1)
    ends(world, 8, "a" * 32, "ran", "completed")
    world.flow()

    assert [each.path.split("?")[0] for each in receiver.received] == ["/hook"]


def test_the_pings_of_two_runs_keep_their_order(world: World, receiver: WebReceiver) -> None:
    world.destination("check", "ping", url=receiver.url, schedule_id=3)
    ends(world, 7, "a" * 32, "ran", "completed")
    ends(world, 8, "b" * 32, "ran", "failed")
    world.flow()

    assert [each.path.split("?")[0] for each in receiver.received] == ["/hook", "/hook/fail"]


def test_a_ping_address_keeps_its_query() -> None:
    assert ping.address("https://hc.example/ping/x?create=1", "fail") == "https://hc.example/ping/x/fail?create=1"
    assert ping.address("https://hc.example/ping/x/", "success") == "https://hc.example/ping/x"


# --- apprise ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["file:///etc/x", "dbus://", "syslog://", "json://example.org", "no-scheme", ""])
def test_apprise_addresses_that_act_on_this_machine_are_refused(world: World, url: str) -> None:
    with pytest.raises((Unprocessable, ValueError)):
        world.destination("a", "apprise", url=url)


def test_apprise_delivers_from_its_own_process(receiver: WebReceiver) -> None:
    """Uses ntfy's protocol because its address can name the test's own server."""
    receiver.answer = lambda _got: (200, {})
    result = apprise_child.send({}, {"url": f"ntfy://127.0.0.1:{receiver.port}/topic"}, BODY, "abc")

    assert result.ok, result.message
    assert b"It broke" in receiver.received[0].body


def test_an_apprise_process_that_does_not_finish_is_terminated(
    receiver: WebReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apprise_child, "SECONDS", 0.5)
    receiver.stall = threading.Event()

    result = apprise_child.send({}, {"url": f"ntfy://127.0.0.1:{receiver.port}/topic"}, BODY, "abc")

    assert not result.ok
    assert "did not finish" in result.message


# --- secrets ----------------------------------------------------------------------------------------------------------


def test_secrets_are_sealed_and_addresses_that_contain_them_are_masked(world: World) -> None:
    destinations: Destinations = world.notifications.destinations
    hook = world.the_destination(world.webhook("https://example.org/hook"))
    chat = world.the_destination(world.destination("chat", "apprise", url="ntfy://token@example.org/topic"))
    check = world.the_destination(
        world.destination("check", "ping", url="https://hc.example/ping/secret-uuid", schedule_id=1)
    )

    assert destinations.secret_names(hook) == ["secret"]
    assert destinations.shown(chat)["url"] == "ntfy://****"
    assert destinations.shown(check)["url"] == "https://hc.example/****"
    for row, secret in ((hook, SECRET), (chat, "token"), (check, "secret-uuid")):
        assert secret not in f"{row.options}{row.secrets}{destinations.shown(row)}"
