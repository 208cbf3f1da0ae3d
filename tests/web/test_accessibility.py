"""Every page is accessible: axe finds no violations in either theme, and no page needs a wide screen."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.running import Running
from tests.web.conftest import WIDE, Storied, go, log_in

AXE = Path(__file__).resolve().parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
PLACES = (
    "/",
    "/welcome",
    "/repositories",
    "/repositories/new",
    "/repositories/import",
    "/repositories/{repository}",
    "/repositories/{repository}/maintenance",
    "/repositories/{repository}/mirror",
    "/repositories/{repository}/activity",
    "/repositories/{repository}/settings",
    "/repositories/987654",
    "/files",
    "/files/{repository}",
    "/search?q=file",
    "/machines",
    "/queue",
    "/activity",
    "/operations/{operation}",
    "/schedules",
    "/notifications",
    "/notifications/rules",
    "/notifications/reports",
    "/notifications/deliveries",
    "/notifications/alarms",
    "/settings",
    "/settings/users",
    "/settings/users/1",
    "/settings/remotes",
    "/settings/packages",
    "/settings/audit",
    "/account",
)
IN_DARK = (
    "/",
    "/repositories/{repository}",
    "/repositories/{repository}/maintenance",
    "/files/{repository}",
    "/activity",
    "/operations/{operation}",
    "/schedules",
    "/settings/users/1",
)
"""Together these have every colour of the others; the campaign checks all pages in both themes."""
DIALOGS = (
    ("/schedules", "New schedule"),
    ("/notifications", "Add channel"),
    ("/notifications/rules", "Add rule"),
    ("/settings/users", "Add user"),
    ("/settings/packages", "Add a package"),
    ("/machines", "Add a machine"),
    ("/machines", "Add over ssh"),
    ("/repositories/new", "Choose a folder"),
)
DIALOG = "document.querySelector('dialog')"
INSIDE_THE_FRAME = "{exclude: [['nav.side'], ['nav.bottom'], ['header.top']]}"
"""The frame is the same around every page, so it is checked once. The campaign checks it on all pages."""
pytestmark = pytest.mark.skipif(not AXE.exists(), reason="the packages of the pages are not installed")


def found_by_axe(page: Page, rules: str, part: str = "document") -> list[Any]:
    session = page.context.new_cdp_session(page)  # not bound by the content policy of the page
    if not page.evaluate("'axe' in window"):
        session.send("Runtime.evaluate", {"expression": AXE.read_text()})
    question = (
        f"axe.run({part}, {{resultTypes: ['violations'], {rules}}})"
        ".then(r => JSON.stringify(r.violations.map(v => [v.id, v.nodes.map(n => n.html)])))"
    )
    told = session.send("Runtime.evaluate", {"expression": question, "awaitPromise": True, "returnByValue": True})
    session.detach()
    found: list[Any] = json.loads(told["result"]["value"])
    return found


def in_light(page: Page, what: str, part: str = "document") -> list[Any]:
    return [(what, "light", one) for one in found_by_axe(page, "", part)]


def in_both_themes(page: Page, what: str, part: str = "document") -> list[Any]:
    found = in_light(page, what, part)
    page.evaluate("document.documentElement.classList.add('dark')")
    only_colours = "runOnly: ['color-contrast']"  # the rest is the same in both themes
    found += [(what, "dark", one) for one in found_by_axe(page, only_colours, part)]
    page.evaluate("document.documentElement.classList.remove('dark')")
    return found


@pytest.mark.parametrize(
    "in_dark", [IN_DARK, pytest.param(PLACES, marks=pytest.mark.campaign)], ids=["some in dark", "all in dark"]
)
def test_axe_finds_no_violations_on_any_page_and_every_page_fits_a_phone(
    running: Running, storied: Storied, page: Page, in_dark: tuple[str, ...]
) -> None:
    repository = storied.repository
    page.goto("/")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    found = in_both_themes(page, "login")
    invited = running.new_user("viewer")
    page.goto(running.admin.post(f"/api/users/{invited['id']}/invitation").json()["path"])
    expect(page.get_by_label("Your password")).to_be_visible()
    found += in_both_themes(page, "join")
    log_in(page)
    operation = running.admin.get("/api/operations/").json()["items"][0]["id"]
    sideways = []
    for place in PLACES:
        path = place.format(repository=repository["id"], operation=operation)
        go(page, path)
        part = "document" if place == "/" or in_dark is PLACES else INSIDE_THE_FRAME
        found += in_both_themes(page, place, part) if place in in_dark else in_light(page, place, part)
        page.set_viewport_size({"width": 360, "height": 800})
        if page.evaluate("document.documentElement.scrollWidth") > 360:
            sideways.append(place)
        page.set_viewport_size(WIDE)
    assert found == []
    assert sideways == []


@pytest.mark.parametrize(
    "in_dark", [DIALOGS[:1], pytest.param(DIALOGS, marks=pytest.mark.campaign)], ids=["one in dark", "all in dark"]
)
def test_axe_finds_no_violations_in_the_dialogs(inside: Page, in_dark: tuple[tuple[str, str], ...]) -> None:
    found: list[Any] = []
    for place, button in DIALOGS:
        go(inside, place)
        inside.get_by_role("button", name=button).first.click()
        expect(inside.get_by_role("dialog")).to_be_visible()
        expect(inside.locator(".skeleton")).to_have_count(0)
        found += [(button, one) for one in found_by_axe(inside, "", DIALOG)]
        if (place, button) in in_dark:
            found += in_both_themes(inside, button)
        inside.keyboard.press("Escape")
        expect(inside.get_by_role("dialog")).to_have_count(0)
    assert found == []


OVERVIEW = """
- navigation "Main":
  - link "Overview"
  - link "Files"
- banner:
  - button /Search every file/
  - status: Live
- main:
  - heading [level=1]
  - region "Needs attention":
    - heading "Needs attention" [level=2]
  - region "Right now":
    - heading "Right now" [level=2]
  - heading "Repositories" [level=2]
  - table:
    - rowgroup:
      - row "Name Backup Check Restore proven Mirror Last 6 weeks Size"
"""
OPERATION = """
- main:
  - heading /Backup of/ [level=1]:
    - link
  - text: completed
  - region "Log":
    - heading "Log" [level=2]
    - textbox "Find in the log"
    - button "Download"
    - log "Log lines"
"""
TIME_MACHINE = """
- region "Place":
  - link
  - navigation "Folder":
    - link "/"
- main:
  - checkbox "Show what exists at other times" [checked]
  - button "Compare two times"
  - button "Download folder"
  - treegrid "Files":
    - row:
      - columnheader "Chosen"
      - columnheader "Name"
      - columnheader "Size"
    - row /b-large 4 items .* 1 version/:
      - gridcell "Select b-large":
        - checkbox "Select b-large"
    - row /kept.conf changed here .* 2 versions/ [selected]
    - row /lost-letter.txt not here, last on .* 1 version/:
      - gridcell:
        - checkbox "Select lost-letter.txt" [disabled]
  - region "Time":
    - heading [level=1]
    - button "Earlier change"
    - button "Later change" [disabled]
    - button "Newest" [disabled]
    - slider "Archive"
- complementary "kept.conf":
  - heading "kept.conf" [level=1]
  - button "Close"
  - button "Restore…"
  - button "Download"
  - heading "2 versions" [level=2]
  - list
"""
RESTORE = """
- dialog "Restore 1 item":
  - heading "Restore 1 item" [level=1]
  - button "Close"
  - group "Where":
    - radio "Where they were" [checked]
    - radio "In another folder"
  - group "If something is there":
    - radio "Keep what is there" [checked]
    - radio "Replace it"
    - radio "Stop, and write nothing"
  - paragraph: "Already there and kept: 1 file."
  - contentinfo:
    - button "Cancel"
    - button "Restore"
"""


def test_a_screen_reader_finds_every_region_and_action(running: Running, storied: Storied, inside: Page) -> None:
    """The tree of roles and names that the browser gives to a screen reader."""
    go(inside, "/")
    expect(inside.locator("body")).to_match_aria_snapshot(OVERVIEW)
    asked = {"repository_id": str(storied.repository["id"])}
    operations = running.admin.get("/api/operations/", params=asked).json()["items"]
    go(inside, f"/operations/{next(one['id'] for one in operations if one['kind'] == 'backup')}")
    expect(inside.locator("body")).to_match_aria_snapshot(OPERATION)
    go(inside, storied.address)
    inside.get_by_role("row").filter(has_text="kept.conf").press(" ")
    expect(inside.locator(".time-machine")).to_match_aria_snapshot(TIME_MACHINE)
    inside.get_by_role("complementary").get_by_role("button", name="Restore…").press("Enter")
    sheet = inside.get_by_role("dialog")
    expect(sheet.locator("xpath=..")).to_match_aria_snapshot(RESTORE)
    inside.keyboard.press("Escape")
    expect(sheet).to_have_count(0)
