"""The audit trail: filtered by user, action, object, outcome and time, and exported."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.running import Running
from tests.web import conftest
from tests.web.conftest import follow, go


def test_filters_of_the_audit_trail_are_kept_in_the_pages_address(running: Running, inside: Page) -> None:
    repository = running.new_repository()
    user = running.new_user("viewer")
    thing = f"repository {repository['id']}"
    go(inside, "/settings/audit")
    inside.get_by_role("button", name=thing, exact=True).first.click()
    rows = inside.locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("repository.created")
    inside.reload()
    expect(inside.get_by_label("Object", exact=True)).to_have_value(thing)
    expect(rows).to_have_count(1)

    inside.get_by_label("Object", exact=True).fill(f"user {user['id']}")
    inside.keyboard.press("Enter")
    expect(rows).to_contain_text(["users.created"])
    inside.get_by_label("User", exact=True).fill(user["username"])
    inside.get_by_label("Outcome").focus()  # leaving the field applies the filter
    expect(inside.get_by_text("Nothing matches.")).to_be_visible()
    inside.get_by_role("button", name="Show everything").click()
    expect(inside.get_by_label("Object", exact=True)).to_have_value("")
    expect(rows.first).to_be_visible()


def test_todays_refused_logins_are_exported_and_an_invalid_filter_is_explained(
    monkeypatch: pytest.MonkeyPatch, running: Running, inside: Page, tmp_path: Path
) -> None:
    monkeypatch.setattr(conftest, "EXPECTED", (*conftest.EXPECTED, "status of 422"))
    name = running.new_name("stranger")
    refused = running.anonymous().post("/api/auth/login", data={"username": name, "password": "wrong"})
    assert refused.status_code == 401
    today = inside.evaluate("new Intl.DateTimeFormat('sv').format(new Date())")
    go(inside, "/settings/audit")
    inside.get_by_label("Outcome").select_option("refused")
    inside.get_by_label("From", exact=True).fill(today)
    expect(inside.locator("tbody tr").first).to_contain_text("refused")
    with inside.expect_download() as saved:
        inside.get_by_role("button", name="Export").click()
    assert saved.value.suggested_filename == "audit.ndjson"
    saved.value.save_as(tmp_path / "audit.ndjson")
    entries = [json.loads(line) for line in (tmp_path / "audit.ndjson").read_text().splitlines()]
    assert entries
    assert {entry["outcome"] for entry in entries} == {"refused"}

    inside.get_by_label("From", exact=True).fill("2999-01-01")
    expect(inside.get_by_text("Nothing matches.")).to_be_visible()

    follow(inside, f"/settings/audit?actor={'x' * 100}")
    expect(inside.get_by_role("alert")).to_contain_text("actor")
