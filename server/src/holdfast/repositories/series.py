"""The series of an archive: its name without the time."""

import re
from functools import lru_cache

TIME = re.compile(
    r"""[-_.+@ ]*
    (?:
        \d{4}-?\d{2}-?\d{2}                                     # 2026-11-15, 20261115
        (?:[T_ .+-]?\d{2}[:.h-]?\d{2}(?:[:.m-]?\d{2}(?:[.,]\d{1,9})?)?)?   # T10:48:01.123, _1048, -104801
        (?:Z|[+-]\d{2}:?\d{2})?
      | 1\d{9}(?:\.\d{1,9})?                                    # seconds since 1970
    )
    (?![0-9])""",
    re.VERBOSE,
)
UNNAMED = "archives"

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
DIRECTIVE = re.compile(r"%-?([a-zA-Z%])")
NOW = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}"
DIGITS = {"Y": 4, "y": 2, "m": 2, "d": 2, "H": 2, "I": 2, "M": 2, "S": 2, "j": 3, "U": 2, "W": 2, "V": 2, "f": 6}
SEPARATORS = "-_.+@ "
GAP = re.compile(r"([-_.+@ ])[-_.+@ ]+")


def series_of(name: str, template: str | None = None) -> str:
    """Return an archive's name without the time.

    A name made from the template loses the template's time, in any format. Any other name loses everything that looks
    like a timestamp.
    """
    made = _pattern(template).fullmatch(name) if template and "{now" in template else None
    rest = "".join(made.groups("")) if made else TIME.sub("", name)
    return GAP.sub(r"\1", rest).strip(SEPARATORS) or UNNAMED


@lru_cache(maxsize=1024)
def _pattern(template: str) -> re.Pattern[str]:
    """Return a pattern for names made from a template, with everything but the time in groups."""
    parts = PLACEHOLDER.split(template)
    made = []
    for number, part in enumerate(parts):
        word, _, form = part.partition(":")
        if number % 2 == 0:
            made.append(f"({_literal(part)})")
        elif word == "now":
            made.append(f"(?:{_time(form) if form else NOW})")
        else:
            made.append("(.+)")
    return re.compile("".join(made), re.DOTALL)


def _literal(text: str) -> str:
    """Return a literal part of a template as it appears in names, where the engine's separators have become dashes."""
    return re.escape(re.sub(r"[\s/]+", "-", text.replace("::", "-")))


def _time(form: str) -> str:
    """Return a pattern for the output of a strftime format."""
    parts = DIRECTIVE.split(form)
    return "".join(_letter(part) if number % 2 else _literal(part) for number, part in enumerate(parts))


def _letter(letter: str) -> str:
    if letter == "%":
        return "%"
    if letter in DIGITS:
        return rf"\d{{1,{DIGITS[letter]}}}"
    return r"\d+" if letter == "s" else r"[^\W\d_][\w:. -]*?"
