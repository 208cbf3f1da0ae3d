"""The slider over 300 archives: each step shows its archive, by pointer and keyboard, and 200 are visible at once."""

import itertools
import os
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.engines import ENGINES
from tests.support.running import Running
from tests.support.service import wait_until
from tests.support.warm_engines import LOADED_WITH, warm_command
from tests.web.conftest import go

pytestmark = pytest.mark.campaign

ARCHIVES = 300
FIRST = datetime(2026, 1, 1, 2, tzinfo=UTC)


@pytest.fixture
def aged(running: Running) -> dict[str, Any]:
    """A repository that another program has filled for 300 days; every third day a letter changes."""
    sources, place = running.new_source(), running.new_path("aged")
    environment = {
        **LOADED_WITH,
        "PATH": os.environ["PATH"],
        "HOME": str(running.new_folder("home")),
        "BORG_HOST_ID": "another program",
        "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
        "BORG_SELFTEST": "disabled",
    }
    engine = warm_command(ENGINES["1.4"])

    def borg(*words: str) -> None:
        subprocess.run([*engine, *words], env=environment, check=True, capture_output=True)

    borg("init", "--encryption", "none", str(place))
    for day in range(ARCHIVES):
        if day % 3 == 0:
            (sources / "letter.txt").write_text(f"day {day}\n")
        at = (FIRST + timedelta(days=day)).strftime("%Y-%m-%dT%H:%M:%S")
        borg("create", "--timestamp", at, "--files-cache", "disabled", f"{place}::a-{day:03}", str(sources))
    body = {
        "name": running.new_name("aged"),
        "path": str(place),
        "source_paths": [str(sources)],
        "encryption": "none",  # confirms that it is not encrypted
        "index_mode": "full",
    }
    answer = running.admin.post("/api/repositories/import", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()

    def indexed() -> bool:
        lanes = running.admin.get(f"/api/repositories/{made['id']}/lanes", params={"path": str(sources).lstrip("/")})
        return lanes.status_code == 200 and lanes.json()["coverage"]["indexed"] == ARCHIVES

    wait_until(indexed, what="all archives are indexed")
    return made


def shows(slider: Locator, first: int, last: int) -> None:
    """The archives that the dock shows side by side."""
    expect(slider).to_have_attribute("min", str(first - 1))
    expect(slider).to_have_attribute("max", str(last - 1))


def test_a_slider_over_300_archives_reaches_each_of_them_and_its_labels_do_not_overlap(
    aged: dict[str, Any], inside: Page
) -> None:
    go(inside, f"/files/{aged['id']}?path={str(aged['source_paths'][0]).lstrip('/')}")
    slider, words = inside.get_by_role("slider", name="Archive", exact=True), inside.get_by_role("region", name="Time")
    expect(words).to_contain_text(f"archive {ARCHIVES} of {ARCHIVES}")
    shows(slider, 101, 300)

    slider.focus()
    for _ in range(5):
        inside.keyboard.press("ArrowLeft")
    expect(words).to_contain_text(f"archive {ARCHIVES - 5} of")
    inside.keyboard.press("Home")
    expect(words).to_contain_text("archive 1 of")
    expect(slider).to_have_attribute("aria-valuetext", "Thu, 1 Jan 2026, 02:00, archive 1 of 300")
    shows(slider, 1, 200)
    inside.keyboard.press("}")  # to the next change of this folder
    expect(words).to_contain_text("archive 4 of")
    inside.keyboard.press("]")
    expect(words).to_contain_text("archive 5 of")
    inside.keyboard.press("{")
    expect(words).to_contain_text("archive 3 of")

    box = slider.bounding_box()
    assert box is not None
    inside.mouse.move(box["x"] + 8, box["y"] + box["height"] / 2)
    inside.mouse.down()
    shown: set[str] = set()
    for part in range(1, 41):
        inside.mouse.move(box["x"] + box["width"] * part / 40, box["y"] + box["height"] / 2)
        shown.add(slider.input_value())
    inside.mouse.up()
    assert len(shown) >= 35  # the slider follows the pointer
    expect(words).to_contain_text("archive 200 of")
    inside.keyboard.press("ArrowRight")  # a key moves beyond the visible part
    expect(words).to_contain_text("archive 201 of")
    shows(slider, 101, 300)
    inside.keyboard.press("+")
    shows(slider, 151, 250)
    inside.get_by_role("button", name="Show more archives at once").click()
    inside.keyboard.press("-")
    shows(slider, 1, 300)
    expect(inside.get_by_role("button", name="Show more archives at once")).to_be_disabled()
    inside.get_by_role("button", name="Show fewer archives at once").click()
    inside.get_by_label("Whole time").press("End")
    expect(words).to_contain_text(f"archive {ARCHIVES} of")
    shows(slider, 151, 300)

    labels = inside.locator(".months span").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect()).map((box) => [box.left, box.right])"
    )
    assert len(labels) >= 6
    assert all(right < left for (_, right), (left, _) in itertools.pairwise(labels))
    rows = inside.get_by_role("treegrid").get_by_role("row")
    inside.get_by_role("button", name="Earlier change").click()
    expect(words).to_contain_text("archive 297 of")
    rows.filter(has_text="letter.txt").click()
    expect(inside.get_by_role("complementary")).to_contain_text("- day 294")
    expect(inside.get_by_role("complementary").locator(".versions li")).to_have_count(100)
