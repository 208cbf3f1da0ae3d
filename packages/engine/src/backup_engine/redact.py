"""Remove secrets from everything that is stored or sent."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, overload
from urllib.parse import quote, quote_plus

from backup_engine.events import Event

REPLACEMENT = "***"
SHORTEST_SECRET = 4
"""Shorter values are not replaced: they occur everywhere by chance, and replacing them would reveal them."""

FREE_TEXT = ("message", "path", "text", "info", "type")
"""Fields of events in which a secret may occur."""


class Redactor:
    """Replaces known secret values, however they are quoted.

    Recognised are the value itself, its JSON, ``repr``, shell and URL forms, the JSON forms of those, and each line of
    a multi-line secret. Values and lines shorter than four characters are not replaced.
    """

    def __init__(self, secret_values: Iterable[str]) -> None:
        forms = sorted({form for value in secret_values for form in _forms(value)}, key=lambda form: (-len(form), form))
        self._text = re.compile("|".join(map(re.escape, forms))) if forms else None
        self._bytes = re.compile(b"|".join(re.escape(_encoded(form)) for form in forms)) if forms else None

    @overload
    def redact(self, line: str) -> str: ...
    @overload
    def redact(self, line: bytes) -> bytes: ...
    def redact(self, line: str | bytes) -> str | bytes:
        """Replace every secret in text or bytes with ``***``."""
        if isinstance(line, bytes):
            return self._bytes.sub(REPLACEMENT.encode(), line) if self._bytes else line
        return self._text.sub(REPLACEMENT, line) if self._text else line

    def redact_event(self, event: Event) -> Event:
        """Replace every secret in the free text of a parsed event.

        This is better than redacting the raw line: a secret that equals a key of the engine's JSON, such as
        ``message``, would make the line unreadable. Message ids, levels and logger names come from the engine and stay.
        """
        if self._text is None:
            return event
        before: dict[str, Any] = {name: getattr(event, name) for name in FREE_TEXT if hasattr(event, name)}
        after = {name: self._redacted_field(value) for name, value in before.items()}
        return event if before == after else replace(event, **after)

    def _redacted_field(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self._redacted_field(item) for item in value)
        return self.redact(value) if isinstance(value, str) else value


def _forms(value: str) -> Iterator[str]:
    for part in {value, *value.splitlines()}:
        if len(part.strip()) < SHORTEST_SECRET:
            continue
        quoted = set(_quoted(part))
        quoted_again = {again for form in quoted for again in _json_forms(form)}
        yield from (form for form in {part, part.strip()} | quoted | quoted_again if len(form) >= SHORTEST_SECRET)


def _quoted(part: str) -> Iterator[str]:
    yield from _json_forms(part)
    yield repr(part)[1:-1]
    yield repr(_encoded(part))[2:-1]
    yield shlex.quote(part)
    yield shlex.quote(part).strip("'")
    for encoded in (quote(_encoded(part), safe=""), quote(_encoded(part)), quote_plus(_encoded(part))):
        yield encoded
        yield re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), encoded)


def _json_forms(part: str) -> Iterator[str]:
    yield json.dumps(part)[1:-1]
    yield json.dumps(part, ensure_ascii=False)[1:-1]


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
