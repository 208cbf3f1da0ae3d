"""External text, made safe for a terminal and fitted to its width.

File names, logs and everything else that the service returns may contain any bytes, including sequences that move the
cursor, rename the window or reverse the writing direction. `clean` makes them harmless.
"""

import json
import re
import unicodedata

ELLIPSIS = "…"
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters (C0, DEL, C1), including ESC
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, line ends, writing direction
    "\ud800-\udfff"  # lone surrogates: not text
    "\U000e0000-\U000e007f]"  # invisible tags
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def clean(value: object) -> str:
    """Return the value as one line of text, with every control character escaped (`\\x1b`)."""
    return _UNSAFE.sub(_written_out, str(value))


def clean_lines(value: object) -> str:
    """Like `clean`, but for the program's own text of several lines: line ends and tabs are kept."""
    return "\n".join("\t".join(clean(cell) for cell in line.split("\t")) for line in str(value).split("\n"))


def clean_json(document: str) -> str:
    """Given a JSON document, return an equivalent one without characters that a terminal would interpret."""
    return "\n".join(_UNSAFE.sub(_escaped_in_json, line) for line in document.split("\n"))


def _escaped_in_json(found: "re.Match[str]") -> str:
    return json.dumps(found.group())[1:-1] if found.group() > "\x7f" else f"\\u{ord(found.group()):04x}"


def _written_out(found: "re.Match[str]") -> str:
    character = found.group()
    if character in _SHORT:
        return _SHORT[character]
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def width(text: str) -> int:
    """The number of terminal columns a text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten(text: str, columns: int) -> str:
    """Cut the middle out of a text that is too wide: the start and end of a path matter most."""
    if width(text) <= columns:
        return text
    if columns <= 1:
        return ELLIPSIS[:columns]
    tail = (columns - 1) * 2 // 3
    return _head(text, columns - 1 - tail) + ELLIPSIS + _head(text[::-1], tail)[::-1]


def cut(text: str, columns: int) -> str:
    """Cut the end off a text that is too wide."""
    return text if width(text) <= columns else _head(text, columns - 1) + ELLIPSIS


def _head(text: str, columns: int) -> str:
    taken = 0
    for position, character in enumerate(text):
        taken += _columns(character)
        if taken > columns:
            return text[:position]
    return text


def padded(text: str, columns: int, *, right: bool = False) -> str:
    blank = " " * max(0, columns - width(text))
    return blank + text if right else text + blank
