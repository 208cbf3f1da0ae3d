"""The response of a download: its file name, and what a cancelled one leaves behind."""

import asyncio
import threading
from typing import Any
from urllib.parse import unquote

import pytest

from holdfast.downloads.opening import ANY_FILE, Opened
from holdfast.downloads.response import Download, disposition
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
