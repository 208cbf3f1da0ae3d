"""The files for Grafana and Prometheus, and the document, name only metrics that `/metrics` serves."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.kit import clock
from holdfast.metrics.series import Reader, families
from holdfast.repositories.overdue import OVERDUE_RULES
from tests.architecture.composed import composed_service

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "deploy" / "grafana" / "holdfast.json"
RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
DOCUMENT = ROOT / "docs" / "metrics.md"
NAME = re.compile(r"\bholdfast_[a-z_]+")


@pytest.fixture(scope="module")
def known() -> set[str]:
    service = composed_service()
    with service.database.reading() as session:
        found = families(Reader(session, "0", "sqlite", 10, service.parts[OVERDUE_RULES], clock.now()))
    names = {family.name for family in found}
    histograms = {family.name for family in found if family.kind == "histogram"}
    return names | {f"{name}_{suffix}" for name in histograms for suffix in ("bucket", "sum", "count")}


def expressions(board: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]


def test_every_metric_of_the_dashboard_exists(known: set[str]) -> None:
    board = json.loads(DASHBOARD.read_text())
    named = {name for expression in expressions(board) for name in NAME.findall(expression)}

    assert len(named) > 15
    assert sorted(named - known) == []


def test_panels_of_the_dashboard_have_queries_and_do_not_overlap() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert [panel["title"] for panel in panels if panel["type"] != "row" and not panel["targets"]] == []
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)), "two panels overlap"
    assert max(x for x, _ in cells) < 24


def test_the_brackets_of_every_expression_are_balanced() -> None:
    rules = re.findall(r"expr: (?:>-\n((?: {10}.*\n)+)|(.*)\n)", RULES.read_text())
    found = [*expressions(json.loads(DASHBOARD.read_text())), *(block or line for block, line in rules)]

    assert len(found) > 25
    for expression in found:
        for left, right in ("()", "{}", "[]"):
            assert expression.count(left) == expression.count(right), expression


def test_every_metric_of_the_rules_exists(known: set[str]) -> None:
    named = set(NAME.findall(RULES.read_text()))

    assert len(named) > 8
    assert sorted(named - known) == []


def test_every_metric_is_documented_and_every_documented_metric_exists(known: set[str]) -> None:
    named = set(NAME.findall(DOCUMENT.read_text()))

    plain = {name for name in known if not name.endswith(("_bucket", "_sum", "_count"))}
    assert sorted(plain - named) == [], "add them to docs/metrics.md"
    assert sorted(named - known) == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
