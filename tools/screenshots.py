#!/usr/bin/env python3
"""Take the screenshots for the README and the documents, from a service filled by `tools/demo.py --keep-open FILE`.

tools/screenshots.py FILE [FOLDER]    (default folder: docs/images)
"""

import json
import re
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

HOUSE = Path(__file__).resolve().parents[1]
SIZE = {"width": 1280, "height": 800}
FLAGS = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]


def log_in(page: Page, known: dict[str, str]) -> None:
    page.goto(known["url"])
    page.get_by_label("User name").fill(known["username"])
    page.get_by_label("Password").fill(known["password"])
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("navigation", name="Main", exact=True).wait_for()


def pictures(page: Page, url: str) -> list[tuple[str, str]]:
    """Names of the screenshots, with the path of each page."""
    page.goto(f"{url}/repositories")
    link = page.get_by_role("link", name="web-server").first.get_attribute("href") or ""
    number = re.findall(r"[0-9]+", link)[0]
    return [
        ("overview", "/"),
        ("repository", f"/repositories/{number}"),
        ("time-machine", f"/files/{number}"),
        ("retention", f"/repositories/{number}/maintenance"),
        ("search", "/search?q=invoices%2F2026"),
        ("schedules", "/schedules"),
    ]


def main() -> None:
    known = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else HOUSE / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        for theme in ("light", "dark"):
            context = browser.new_context(viewport=SIZE, color_scheme=theme, reduced_motion="reduce")
            page = context.new_page()
            log_in(page, known)
            for name, path in pictures(page, known["url"]):
                page.goto(known["url"] + path)
                expect(page.locator("main")).to_be_visible()
                if name == "time-machine":
                    page.get_by_text("invoices", exact=True).click()
                    page.get_by_text("2026-01.pdf").wait_for()
                expect(page.locator(".skeleton")).to_have_count(0)
                page.screenshot(path=folder / f"{name}-{theme}.png")
                print(f"{name}-{theme}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
