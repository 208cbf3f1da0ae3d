"""Archive names: characters that engines refuse, and the names that a template produces."""

import re
from datetime import UTC, datetime
from functools import lru_cache

from backup_engine.frozen import frozen
from holdfast.repositories.series import DIGITS, DIRECTIVE, PLACEHOLDER, series_of

DIGIT = "[0-9]"
NOW_FORM = "%Y-%m-%dT%H:%M:%S."
MILLISECONDS, MICROSECONDS = 3, 6
"""Digits of the fraction in `{now}`: this service writes three, the engine of an agent six."""
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
NOTHING = "(?!)"
WORDS = {
    "%": "%",
    "s": "[0-9]+",
    "B": f"(?:{'|'.join(MONTHS)})",
    "b": f"(?:{'|'.join(name[:3] for name in MONTHS)})",
    "A": f"(?:{'|'.join(WEEKDAYS)})",
    "a": f"(?:{'|'.join(name[:3] for name in WEEKDAYS)})",
    "p": "(?:AM|PM)",
    "F": f"{DIGIT}{{4}}-{DIGIT}{{2}}-{DIGIT}{{2}}",
    "T": f"{DIGIT}{{2}}:{DIGIT}{{2}}:{DIGIT}{{2}}",
    "R": f"{DIGIT}{{2}}:{DIGIT}{{2}}",
}
"""Output of the strftime letters that are not numbers of fixed length."""
SENTINEL = 0xE000
"""The first of the characters that stand for times while a name is made."""


def without(refused: str, text: str) -> str:
    """Replace each of the refused characters with a dash."""
    return "".join("-" if character in refused else character for character in text)


def safe(text: str) -> str:
    """Replace the characters that the engine treats as separators or placeholders with dashes."""
    return re.sub(r"[\s/{}]+", "-", text.replace("::", "-")).strip("-")


def series_name(template: str, repository: str) -> str:
    """Return the name of a template's series, as shown where archives are grouped by series."""
    example = datetime(2026, 1, 1, tzinfo=UTC)

    def fill(match: re.Match[str]) -> str:
        word, _, form = match[1].partition(":")
        return example.strftime(form or f"{NOW_FORM}000") if word == "now" else safe(repository)

    return series_of(safe(PLACEHOLDER.sub(fill, template)), template)


@frozen
class Series:
    """The names that a template produces for a repository, at any time."""

    glob: str
    """For the engine: the literal parts and the shape of the time. It may match more than the series."""
    pattern: str
    """A regular expression that matches exactly these names."""

    def has(self, name: str) -> bool:
        return re.fullmatch(self.pattern, name) is not None


@lru_cache(maxsize=1024)
def series_of_template(template: str, repository: str, refused: str = "", fraction: int = MILLISECONDS) -> Series:
    """Given a template and the name of its repository, return the series of archives named by it."""
    forms: list[str] = []

    def mark(match: re.Match[str]) -> str:
        word, _, form = match[1].partition(":")
        if word != "now":
            return safe(repository)
        forms.append(form)
        return chr(SENTINEL + len(forms) - 1)

    name = safe(without(refused, PLACEHOLDER.sub(mark, template)))
    globs, patterns = [], []
    for character in name:
        place = ord(character) - SENTINEL
        if 0 <= place < len(forms):
            form = forms[place] or NOW_FORM
            digits = 0 if forms[place] else fraction
            globs.append(_time_glob(form) + DIGIT * digits)
            patterns.append(f"(?:{_time_pattern(form)}{DIGIT}{{{digits}}})")
        else:
            globs.append(_literal(character))
            patterns.append(re.escape(character))
    return Series("".join(globs), "".join(patterns))


def _literal(character: str) -> str:
    return f"[{character}]" if character in "*?[" else character


def _parts(form: str) -> list[tuple[str, str, bool]]:
    """Split a strftime format into plain texts, each with the directive that follows and whether that is padded."""
    parts, end = [], 0
    for match in DIRECTIVE.finditer(form):
        parts.append((_plain(form[end : match.start()]), match[1], "-" not in match[0]))
        end = match.end()
    return [*parts, (_plain(form[end:]), "", True)]


def _time_glob(form: str) -> str:
    """Return the output of a strftime format as a glob."""
    made = []
    for plain, letter, is_padded in _parts(form):
        made.append("".join(map(_literal, plain)))
        if letter in DIGITS:
            made.append(DIGIT * DIGITS[letter] if is_padded else "*")
        elif letter:
            made.append("%" if letter == "%" else "*")
    return "".join(made)


def _time_pattern(form: str) -> str:
    """Return the output of a strftime format as a regular expression. Unknown directives match nothing."""
    made = []
    for plain, letter, is_padded in _parts(form):
        made.append(re.escape(plain))
        if letter in DIGITS:
            made.append(f"{DIGIT}{{{'' if is_padded else '1,'}{DIGITS[letter]}}}")
        elif letter:
            made.append(WORDS.get(letter, NOTHING))
    return "".join(made)


def _plain(text: str) -> str:
    return re.sub(r"[\s/{}]+", "-", text.replace("::", "-"))
