"""The first minutes: from an empty service to a backup with a restored file, and a kit that works without Holdfast."""

import html
import os
import re
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.engines import ENGINES
from tests.support.running import Running, Services
from tests.web.conftest import go, log_in


@pytest.fixture
def running(services: Services) -> Iterator[Running]:
    """A service without any backups yet."""
    with services.own() as fresh:
        yield fresh


def test_the_first_backup_can_be_postponed_is_proven_and_its_kit_restores_it_with_plain_borg(
    running: Running, page: Page
) -> None:
    """While it is postponed, the other pages show that nothing is there yet, and none is a dead end."""
    sources = running.new_source()
    (sources / "letter.txt").write_text("dear reader\n")
    place = running.new_path("first")
    log_in(page)
    page.get_by_role("button", name="Not now").click()
    expect(page.get_by_role("heading", name="Nothing is backed up yet.")).to_be_visible()
    for path, words in (("/activity", "Nothing has run yet."), ("/activity?status=failed", "Nothing matches.")):
        go(page, path)
        expect(page.get_by_text(words)).to_be_visible()
    go(page, "/files")
    page.get_by_role("link", name="All repositories").click()
    expect(page.get_by_text("No repositories yet, or none that you can see.")).to_be_visible()
    go(page, "/")
    page.get_by_role("link", name="Create the first backup").click()
    page.get_by_label("Folder or file").fill(str(sources))
    page.get_by_role("button", name="Next: where to").click()
    page.get_by_label("Folder", exact=True).fill(str(place))
    page.get_by_role("button", name="Next: protect it").click()
    page.get_by_role("button", name="Create the repository").click()
    start = page.get_by_role("button", name="Start the first backup")
    expect(start).to_be_disabled()
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save").click()
    kit = html.unescape(saving.value.path().read_text())
    parts = dict(re.findall(r"<h2>(.*?)</h2>\n<p>.*?</p>\n<pre>(.*?)</pre>", kit, re.DOTALL))
    words = parts["Passphrase"].split("-")
    for label in page.get_by_text(re.compile(r"^Word \d$")).all_inner_texts():
        page.get_by_label(label).fill(words[int(label.split()[1]) - 1])
    start.click()
    expect(page.get_by_text("dear reader")).to_be_visible()
    expect(page.get_by_text("Proven restorable")).to_be_visible()
    expect(page.get_by_role("link", name="Back up every night")).to_be_visible()

    elsewhere = running.new_folder("another-machine")
    (elsewhere / "key.txt").write_text(parts["Key"] + "\n")
    archive = running.admin.get("/api/repositories/1/archives").json()["archives"][0]["name"]
    script = "\n".join(
        [
            "set -e",
            parts["List the archives"],
            parts["If the repository has lost its key"],
            parts["Restore"].replace("ARCHIVE", archive),
        ]
    )
    bare = {
        "PATH": f"{ENGINES['1.4'].parent}:{os.environ['PATH']}",
        "HOME": str(elsewhere),
        "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "no",
    }
    done = subprocess.run(["sh", "-c", script], cwd=elsewhere, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert archive in done.stdout
    assert (elsewhere / "restored" / str(sources).lstrip("/") / "letter.txt").read_text() == "dear reader\n"
