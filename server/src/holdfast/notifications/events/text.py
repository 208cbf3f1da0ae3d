"""External text (names, paths, engine messages) is data: nothing in it may end a line, a header or a tag."""

import re
import unicodedata

LONGEST = 200
REPLACED = "\N{REPLACEMENT CHARACTER}"
FIELDS = (
    *("event", "severity", "title", "text", "repository", "schedule", "agent", "error", "since", "count", "operation"),
    *("time", "service"),
)
_FIELD = re.compile(r"\{([A-Za-z_]+)\}")
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_MENTION = re.compile(r"([@<])(?=[!@#&\w])")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|>~])")


def clean(value: object, most: int = LONGEST) -> str:
    """Return one line without control, bidirectional or other invisible characters, cut to a maximum length."""
    text = str(value)[: most * 4]
    shown = "".join(REPLACED if unicodedata.category(letter) in _INVISIBLE else letter for letter in text)
    return shown if len(shown) <= most and len(str(value)) <= most * 4 else f"{shown[: most - 1]}…"


def clean_lines(value: str, most_lines: int = 20) -> str:
    return "\n".join(clean(line) for line in value.splitlines()[:most_lines])


def for_chat(text: str) -> str:
    """Return text that chat programs show unchanged: no formatting, no mentions of people or channels."""
    return _MENTION.sub("\\1\N{WORD JOINER}", _MARKDOWN.sub(r"\\\1", text))


def unknown_fields(template: str) -> list[str]:
    return [name for name in _FIELD.findall(template) if name not in FIELDS]


def filled(template: str, values: dict[str, str]) -> str:
    """Return a template with its `{field}`s replaced by their values. Values are not expanded again."""
    return _FIELD.sub(lambda found: values.get(found[1], "") if found[1] in FIELDS else found[0], template)
