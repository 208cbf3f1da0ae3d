"""An operator can work on shared repositories, and sees an explanation on pages for admins."""

import pytest
from playwright.sync_api import Page, expect

from tests.support.running import PASSWORD, Running
from tests.web import conftest
from tests.web.conftest import follow, go, log_in

FOR_ADMINS = ("/settings", "/settings/users", "/settings/audit", "/machines", "/repositories/new", "/notifications")


def test_an_operator_backs_up_a_shared_repository_and_admin_pages_explain_who_has_access(
    monkeypatch: pytest.MonkeyPatch, running: Running, page: Page
) -> None:
    monkeypatch.setattr(conftest, "EXPECTED", (*conftest.EXPECTED, "403 (Forbidden)"))
    mine, hidden = running.new_repository(), running.new_repository()
    user = running.new_user("operator")
    given = running.admin.put(f"/api/users/{user['id']}/repositories/{mine['id']}", json={"role": "operator"})
    assert given.status_code == 200, given.text
    log_in(page, user["username"], PASSWORD, "/account")
    main = page.get_by_role("navigation", name="Main", exact=True)
    for name in ("Machines", "Settings", "Notifications"):
        expect(main.get_by_role("link", name=name)).to_have_count(0)

    go(page, f"/repositories/{mine['id']}")
    page.get_by_role("button", name="Back up", exact=True).click()
    expect(page.get_by_role("heading", name=f"Backup of {mine['name']}")).to_be_visible()
    expect(page.get_by_text("completed", exact=True).first).to_be_visible()
    go(page, f"/repositories/{mine['id']}/settings")
    expect(page.get_by_role("button", name="Forget…")).to_have_count(0)
    go(page, "/repositories")
    expect(page.get_by_role("link", name=mine["name"]).first).to_be_visible()
    for act in ("Create", "Import"):
        expect(page.get_by_role("link", name=act, exact=True)).to_have_count(0)

    for path in FOR_ADMINS:
        follow(page, path)
        expect(page.locator("main")).to_contain_text("admin")
    for path in (f"/repositories/{hidden['id']}", f"/files/{hidden['id']}"):
        follow(page, path)
        expect(page.get_by_text("Not found, or not visible to you.")).to_be_visible()
