"""Folders show their sizes and counts, and can be sorted by size."""

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.running import Running
from tests.web.conftest import MANY, Storied, go
from tests.web.test_journeys import backed_up


def test_folders_show_their_sizes_and_sorting_by_size_puts_the_largest_first(storied: Storied, inside: Page) -> None:
    go(inside, storied.address)
    rows = inside.get_by_role("treegrid").get_by_role("row")
    large = rows.filter(has_text="b-large")
    expect(large).to_contain_text("4 items")
    expect(large).to_contain_text("100 KB")
    names = re.compile("a-small|b-large|c-middle|file-0")
    expect(rows.filter(has_text=names)).to_contain_text(["a-small", "b-large", "c-middle", "file-0"])
    inside.get_by_role("columnheader", name="Size").get_by_role("button").click()
    expect(rows.filter(has_text=names)).to_contain_text(["b-large", "c-middle", "a-small", "file-0"])
    expect(inside.get_by_role("columnheader", name="Size")).to_have_attribute("aria-sort", "descending")
    inside.reload()
    expect(rows.filter(has_text=names)).to_contain_text(["b-large", "c-middle", "a-small", "file-0"])


def test_a_folder_is_listed_before_its_sizes_arrive_and_without_them(storied: Storied, inside: Page) -> None:
    shown_before: list[bool] = []

    def refuse(route: Route) -> None:
        shown_before.append(inside.get_by_role("treegrid").get_by_text("b-large", exact=True).is_visible())
        route.fulfill(status=404, json={"detail": {"key": "archives.path_not_found", "message": "No.", "params": {}}})

    inside.route("**/browse?*", refuse)
    with inside.expect_request("**/browse?*"):
        inside.goto(storied.address)
    row = inside.get_by_role("treegrid").get_by_role("row").filter(has_text="b-large")
    expect(row).to_be_visible()
    expect(row).not_to_contain_text("item")
    assert shown_before
    assert all(shown_before)


@pytest.mark.campaign
def test_a_folder_of_100_000_names_lists_all_and_draws_only_the_visible_ones(running: Running, inside: Page) -> None:
    sources = running.new_source(files=0)
    for number in range(100_000):
        (sources / f"name-{number:06}").touch()
    repository = backed_up(running, sources)
    has_all_names(inside, f"/files/{repository['id']}?path={str(sources).lstrip('/')}", 100_000)


def test_a_long_folder_lists_all_its_names_and_draws_only_the_visible_ones(storied: Storied, inside: Page) -> None:
    has_all_names(inside, f"{storied.address}/many", MANY)


def has_all_names(inside: Page, address: str, count: int) -> None:
    go(inside, address)
    rows = inside.get_by_role("treegrid")
    expect(rows).to_have_attribute("aria-rowcount", str(count))
    assert rows.get_by_role("row").count() <= 80
    rows.evaluate("box => { box.scrollTop = box.scrollHeight }")
    expect(rows.get_by_text(f"name-{count - 1:06}")).to_be_visible()
    assert rows.get_by_role("row").count() <= 80
    last = rows.get_by_role("row").filter(has_text=f"name-{count - 1:06}")
    filtering = inside.get_by_label("Filter the names of this folder")
    filtering.fill("NAME-000007")
    expect(rows).to_have_attribute("aria-rowcount", "1")
    expect(inside).to_have_url(re.compile("name=NAME-000007"))
    filtering.fill("")
    expect(rows).to_have_attribute("aria-rowcount", str(count))
    rows.evaluate("box => { box.scrollTop = box.scrollHeight }")
    last.focus()
    inside.keyboard.press("ArrowUp")
    expect(rows.get_by_role("row").filter(has_text=f"name-{count - 2:06}")).to_be_focused()
