"""The response of a download: its file name, its parts, and what is left of one whose client or task is gone."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest

from holdfast.downloads.opening import ANY_FILE, Opened
from holdfast.downloads.response import SENT_AT_ONCE, Download, disposition
from tests.support.service import PATIENCE


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("report.pdf", 'attachment; filename="report.pdf"'),
        ("two words", 'attachment; filename="two words"'),
        ("", 'attachment; filename="download"'),
        ("naïve.txt", "attachment; filename=\"na_ve.txt\"; filename*=UTF-8''na%C3%AFve.txt"),
        ('a"b\\c%d', "attachment; filename=\"a_b_c_d\"; filename*=UTF-8''a%22b%5Cc%25d"),
        ("a\r\nSet-Cookie: x", "attachment; filename=\"a__Set-Cookie: x\"; filename*=UTF-8''a%0D%0ASet-Cookie%3A%20x"),
    ],
)
def test_a_name_is_sent_in_a_plain_and_an_exact_form(name: str, header: str) -> None:
    assert disposition(name) == header


@pytest.mark.parametrize("name", ["naïve.txt", "文書", "a;b=ü", "tab\there", "%41"])
def test_decoding_the_exact_form_returns_the_name(name: str) -> None:
    _, _, encoded = disposition(name).partition("; filename*=UTF-8''")

    assert unquote(encoded, errors="strict") == name


def test_a_download_that_is_cancelled_while_it_is_opened_is_closed() -> None:
    opening, cancelled, closed = threading.Event(), threading.Event(), threading.Event()

    def begin(_gone: threading.Event) -> Opened:
        opening.set()
        assert cancelled.wait(PATIENCE)
        return Opened("a", ANY_FILE, None, [], closed.set)

    async def receive() -> Any:
        await asyncio.sleep(PATIENCE)

    async def send(_message: Any) -> None:
        raise AssertionError("nothing is sent")

    async def story() -> None:
        sending = asyncio.create_task(Download(begin)({"type": "http", "method": "GET"}, receive, send))
        await asyncio.to_thread(opening.wait, PATIENCE)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        cancelled.set()

    asyncio.run(story())

    assert closed.wait(PATIENCE)


def test_nothing_more_is_read_for_a_client_that_has_left() -> None:
    blocks, sent_when_it_left = 200, 3
    read: list[int] = []

    def begin(_gone: threading.Event) -> Opened:
        def content() -> Iterator[bytes]:
            for number in range(blocks):
                read.append(number)
                yield bytes(1000)

        return Opened("a", ANY_FILE, blocks * 1000, content())

    async def story() -> None:
        left = asyncio.Event()

        async def receive() -> Any:
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(_message: Any) -> None:  # as the server does, it ignores what follows
            if len(read) >= sent_when_it_left:
                left.set()
            await asyncio.sleep(0)

        await Download(begin)({"type": "http", "method": "GET"}, receive, send)

    asyncio.run(story())

    assert len(read) < sent_when_it_left + 10


def test_a_large_block_is_sent_in_parts() -> None:
    content = bytes(range(256)) * (3 * SENT_AT_ONCE // 256) + b"end"
    sent: list[bytes] = []

    async def receive() -> Any:
        await asyncio.sleep(PATIENCE)

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    def begin(_gone: threading.Event) -> Opened:
        return Opened("a", ANY_FILE, len(content), iter([content]))

    asyncio.run(Download(begin)({"type": "http", "method": "GET"}, receive, send))

    assert b"".join(sent) == content
    assert max(map(len, sent)) == SENT_AT_ONCE
