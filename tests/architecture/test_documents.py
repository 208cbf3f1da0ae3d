"""Every setting and every kind of operation is documented, and documents are wrapped."""

import re
from pathlib import Path
from typing import Any

from holdfast.operations.kinds import REGISTRY
from holdfast.settings import Settings
from tests.architecture.composed import composed_service
from tools.wrap_docs import WIDTH, wrapped

ROOT = Path(__file__).resolve().parents[2]
OPERATE = (ROOT / "docs" / "operate.md").read_text()


def rows_of_table(heading: str) -> dict[str, list[str]]:
    """The rows of the first table below a heading, by the name in backquotes in their first cell."""
    section = OPERATE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    cells = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("| `")
    ]
    return {row[0].strip("`"): row[1:] for row in cells}


def shown(default: Any) -> str:
    return "" if default is None else f"`{default}`"


SETTINGS = rows_of_table("Settings")
KINDS = rows_of_table("Operations")


def test_every_setting_is_documented_with_its_default_and_no_row_is_left_over() -> None:
    defaults = {f"HOLDFAST_{name.upper()}": shown(field.default) for name, field in Settings.model_fields.items()}

    assert {name: default for name, (default, _) in SETTINGS.items()} == defaults, (
        "update the settings in docs/operate.md"
    )
    assert [name for name, (_, meaning) in SETTINGS.items() if len(meaning) < 10] == []


def test_every_setting_has_a_description_in_the_code() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_every_kind_is_documented_with_category_and_lock_and_no_row_is_left_over() -> None:
    kinds = composed_service().parts[REGISTRY].kinds
    told = {name: (category, lock) for name, (category, lock, _) in KINDS.items()}

    assert told == {name: (kind.category, str(kind.lock or "none")) for name, kind in kinds.items()}, (
        "update the settings in docs/operate.md"
    )
    assert [name for name, (_, _, what) in KINDS.items() if len(what) < 10] == []


def test_the_settings_that_scripts_rely_on_exist() -> None:
    fixed = "DATA_DIR DATABASE_URL ADMIN_PASSWORD PLAN SECRET_KEY SECRET_KEY_FILE BORG1 BORG2 INLINE_WAIT_SECONDS"

    assert {f"HOLDFAST_{name}" for name in fixed.split()} <= set(SETTINGS)
    assert re.search(r"`holdfast\.toml`", OPERATE)


def test_prose_in_documents_is_wrapped_at_120_characters() -> None:
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]

    assert [path.name for path in documents if wrapped(path.read_text()) != path.read_text()] == [], (
        "run tools/wrap_docs.py on these"
    )
    assert max(map(len, wrapped("word " * 100 + "`code that stays together`").split("\n"))) <= WIDTH
