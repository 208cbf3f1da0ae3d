"""Secrets are removed from everything that is kept."""

import json
import shlex
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as some

from backup_engine.events import (
    ArchiveProgress,
    Event,
    FileStatus,
    LogMessage,
    PlainLine,
    ProgressPercent,
    UnknownMessage,
)
from backup_engine.redact import REPLACEMENT, Redactor

SECRETS = [
    "correct horse battery",
    "pässwörd",
    "with 'single' and \"double\"",
    "back\\slash",
    "percent% & slash/ + plus",
    "$(reboot) `ls`",
    "caf\udce9",
    "tab\tinside",
]


def every_form(secret: str) -> list[str]:
    raw = secret.encode("utf-8", "surrogateescape")
    return [
        secret,
        json.dumps(secret),
        json.dumps(secret, ensure_ascii=False),
        repr(secret),
        repr(raw),
        shlex.quote(secret),
        quote(raw),
        quote(raw, safe=""),
        quote_plus(raw),
        quote(raw, safe="").lower() if secret.islower() else quote(raw),
        json.dumps(repr(secret)),
        json.dumps(shlex.quote(secret)),
    ]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_replaced_in_every_form(secret: str) -> None:
    redactor = Redactor([secret])

    for form in every_form(secret):
        line = redactor.redact(f"before {form} after")
        assert REPLACEMENT in line
        assert form.strip("'\"") not in line
        assert line.startswith("before ")
        assert line.endswith(" after")


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_replaced_in_bytes(secret: str) -> None:
    raw = secret.encode("utf-8", "surrogateescape")

    assert Redactor([secret]).redact(b"before \xff " + raw + b" after") == b"before \xff *** after"


def test_each_line_of_a_long_secret_is_replaced() -> None:
    redactor = Redactor(["first line\nsecond line\n\nab\n"])

    assert redactor.redact("x first line y") == "x *** y"
    assert redactor.redact("second line") == "***"
    assert redactor.redact("ab") == "ab"
    assert redactor.redact('"first line\\nsecond line\\n\\nab\\n"') == '"***"'


def test_a_secret_that_contains_another_is_replaced_as_a_whole() -> None:
    assert Redactor(["pass", "password"]).redact("password pass") == "*** ***"


@pytest.mark.parametrize("secrets", [[], [""], ["abc"], ["   \n  "], ["a\nb\nc"]])
def test_values_too_short_to_be_secrets_change_nothing(secrets: list[str]) -> None:
    redactor = Redactor(secrets)

    assert redactor.redact("abc and a b c") == "abc and a b c"
    assert redactor.redact(b"abc") == b"abc"


def test_text_without_a_secret_is_unchanged() -> None:
    assert Redactor(["hidden words"]).redact("nothing to hide") == "nothing to hide"


@pytest.mark.parametrize(
    ("event", "redacted"),
    [
        (LogMessage("ERROR", "borg", "Error", "bad message"), LogMessage("ERROR", "borg", "Error", "bad ***")),
        (PlainLine("a message"), PlainLine("a ***")),
        (FileStatus("A", "/message/x"), FileStatus("A", "/***/x")),
        (ProgressPercent(info=("x", "message"), current=1), ProgressPercent(info=("x", "***"), current=1)),
        (ArchiveProgress(path="/message", nfiles=3), ArchiveProgress(path="/***", nfiles=3)),
        (UnknownMessage("message"), UnknownMessage("***")),
        (ArchiveProgress(nfiles=3), ArchiveProgress(nfiles=3)),
    ],
)
def test_a_secret_that_equals_an_engine_word_is_replaced_only_in_free_text(event: Event, redacted: Event) -> None:
    assert Redactor(["message"]).redact_event(event) == redacted


def test_the_fixed_words_of_an_event_are_kept() -> None:
    event = LogMessage("ERROR", "borg.archiver", "LockTimeout", "x")

    assert Redactor(["LockTimeout", "borg.archiver", "ERROR"]).redact_event(event) is event


@given(some.lists(some.text(max_size=40), max_size=4), some.text(max_size=80), some.text(max_size=80))
def test_no_secret_of_four_or_more_characters_survives_whatever_surrounds_it(
    secrets: list[str], before: str, after: str
) -> None:
    redactor = Redactor(secrets)

    for secret in secrets:
        line = redactor.redact(before + secret + after)
        assert len(secret.strip()) < 4 or secret not in line or secret in REPLACEMENT * 100


@given(some.text(some.characters(), min_size=4), some.binary())
def test_redaction_handles_any_secret_and_any_bytes(secret: str, raw: bytes) -> None:
    assert isinstance(Redactor([secret]).redact(raw), bytes)
