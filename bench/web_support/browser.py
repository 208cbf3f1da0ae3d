"""A browser for benches: one page with a slowed-down processor, and the browser's own measurements."""

import http.server
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import CDPSession, Page, sync_playwright

from tests.support.service import ADMIN_PASSWORD, ServiceProcess

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
]
SLOWER = 4
SHIFTS = """() => { window.shifted = 0; new PerformanceObserver((list) => { for (const one of list.getEntries())
  if (!one.hadRecentInput) window.shifted += one.value }).observe({ type: 'layout-shift', buffered: true }) }"""
LARGEST = """() => new Promise((done) => { new PerformanceObserver((list) => done(list.getEntries().at(-1).startTime))
  .observe({ type: 'largest-contentful-paint', buffered: true }) })"""
STATIC_PAGE = b"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Static</title>
<style>body{font-family:sans-serif;margin:40px}li{margin:8px}</style></head><body><h1>Everything is restorable.</h1>
<button onclick="this.textContent += '!'">Act</button><ul><li>One repository</li><li>Another repository</li><li>A third one</li></ul></body></html>"""  # noqa: E501


class Measured:
    """A page, with the session through which the browser reports on it."""

    def __init__(self, page: Page, session: CDPSession) -> None:
        self.page, self._session = page, session

    def slow_down(self, times: int) -> None:
        self._session.send("Emulation.setCPUThrottlingRate", {"rate": times})

    def forget_files(self) -> None:
        self._session.send("Network.clearBrowserCache")

    def collect_garbage(self) -> None:
        self._session.send("HeapProfiler.collectGarbage")

    def metrics(self) -> dict[str, float]:
        told: dict[str, Any] = self._session.send("Performance.getMetrics")
        return {one["name"]: one["value"] for one in told["metrics"]}

    def largest_paint(self) -> float:
        value: float = self.page.evaluate(LARGEST)
        return value

    def watch_shifts(self) -> None:
        self.page.evaluate(SHIFTS)

    def shifted(self) -> float:
        value: float = self.page.evaluate("window.shifted")
        return value


@contextmanager
def browsing(service: ServiceProcess) -> Iterator[Measured]:
    """A page of the service, logged in as admin."""
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    assert program is not None, "chromium is not installed"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        page = browser.new_context(base_url=service.url, viewport={"width": 1440, "height": 900}).new_page()
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        session.send("Network.enable")
        page.goto("/")
        page.get_by_label("User name").fill("admin")
        page.get_by_label("Password").fill(ADMIN_PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("navigation", name="Main", exact=True).wait_for()
        yield Measured(page, session)
        browser.close()


class _StaticPage(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(STATIC_PAGE)))
        self.end_headers()
        self.wfile.write(STATIC_PAGE)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def static_page() -> Iterator[str]:
    """The address of a page without scripts, as a baseline."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _StaticPage)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
