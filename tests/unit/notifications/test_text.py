"""Text from outside is treated as data in every format."""

import pytest

from holdfast.notifications.events.text import clean, filled, for_chat, unknown_fields


@pytest.mark.parametrize("bad", ["\r", "\n", "\0", "\x1b", "\u202e", "\u2066", "\u200f", "\u2028", "\ufeff", "\ud800"])
def test_invisible_characters_are_replaced(bad: str) -> None:
    assert clean(f"a{bad}b") == "a\ufffdb"


def test_long_text_is_cut() -> None:
    assert len(clean("x" * 10_000)) == 200
    assert clean("x" * 10_000).endswith("…")
    assert clean("x" * 200) == "x" * 200


def test_ordinary_text_of_any_language_is_unchanged() -> None:
    assert clean("Fotos ä 写真 😀 /srv/a b") == "Fotos ä 写真 😀 /srv/a b"


def test_chat_text_is_escaped_and_mentions_nobody() -> None:
    shown = for_chat("**bold** @everyone <!channel> [x](http://y)")

    assert "@everyone" not in shown
    assert "<!channel>" not in shown
    assert r"\*\*bold\*\*" in shown


def test_unknown_fields_of_a_template_are_found() -> None:
    assert unknown_fields("{repository} {severity} {nonsense} { x } {}") == ["nonsense"]


def test_placeholders_inside_values_are_not_filled_in() -> None:
    assert filled("{repository}: {text}", {"repository": "{text}", "text": "secret"}) == "{text}: secret"
    assert filled("{repository.__class__} {0}", {}) == "{repository.__class__} {0}"
