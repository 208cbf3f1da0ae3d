"""Text for people is plain English with one word per thing: see CONTRIBUTING.md and docs/glossary.md.

The tests read the documents, the docstrings and string literals of the product, and the texts of the web UI.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = ("server/src/holdfast/storage/migrations/", "docs/errors.md", "web/src/api/schema.d.ts")
"""Finished migrations, and documents generated from other text."""

TRANSLATED = {
    r"(?:is|are|was|were|be|been) told": "name what happens: reports, shows, returns, logs",
    r"who asks": "the caller, the client",
    r"unless told": "default: …",
    r"at hand": "available, current, stored",
    r"no \w+ of ours": "not managed by Holdfast",
    r"(?:be|is|are) cared for": "processed",
    r"for ever": "indefinitely, permanently",
    r"in vain": "without success",
    r"the like": "name the others, or leave it out",
    r"mend(?:s|ed|ing)?": "repair",
    r"of the moment": "current",
    r"brought in line": "synchronised",
    r"without a word": "without a message",
    r"so many": "this many, default: …",
    r"is no text": "is not valid UTF-8",
    r"says so": "reports, notes or shows it",
    r"hears? of": "is notified of, knows",
    r"heard of": "connected, received",
    r"somebody": "the user, the caller, another process",
    r"everybody": "everyone, all users",
    r"anew": "again, or a verb: recreate, restart, recompute",
    r"what lies": "the files there, the repository there",
    r"lies (?:there|elsewhere|inside|in|at|on|below|beside|under)": "is stored, is",
}
"""Phrases that read translated, each with what to write instead."""

ONE_WORD = {
    r"control plane": "the service",
    r"backup server": "the service",
    r"daemons?": "the service, the agent",
    r"snapshots?": "archive",
    r"repos? (?:is|are|was|has|must|may)": "repository",
    r"(?:a|the|this|each|every) repo": "repository",
    r"(?:a|the|this|each|every) task (?:is|was|has|waits|runs|fails)": "operation; job where an agent executes it",
    r"workers? (?:process|machine)(?:es|s)?": "runner, agent",
    r"directory": "folder",
}
"""Synonyms for a term of the glossary, each with the term to use."""
NAMES = {
    "directory": ("security director", "directory not found", "server/src/holdfast/history/"),
    "daemons?": ("launchd", "a daemon that"),
    "snapshots?": ("a mirror or a snapshot",),
}
"""Uses of a synonym that mean something else: terms of the engine and the system, and table names of the history index.
"""
JOINED = re.compile(r'"\s*\n\s*[rbf]*"')
"""What separates two parts of one string literal."""


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """The place and text of everything a person reads, from files that contain one of the phrases."""
    any_of = _pattern((*TRANSLATED, *ONE_WORD))
    raw = {path: path.read_text("utf-8") for path in files()}
    return tuple(
        (str(path.relative_to(ROOT)), text)
        for path, content in raw.items()
        if any_of.search(JOINED.sub("", content))
        for text in _READERS[path.suffix](content)
    )


@cache
def files() -> tuple[Path, ...]:
    documents = (ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))
    globs = ("docs/*.md", "packages/*/src/**/*.py", "server/src/**/*.py", "web/src/**/*.ts*")
    paths = (*documents, *(path for glob in globs for path in ROOT.glob(glob)))
    return tuple(p for p in paths if not str(p.relative_to(ROOT)).startswith(LEFT_OUT) and ".test." not in p.name)


def _pattern(phrases: Iterable[str]) -> re.Pattern[str]:
    """The words of a phrase may be split across two lines."""
    return re.compile(rf"\b(?:{'|'.join(phrases)})\b".replace(" ", r"\s+"), re.IGNORECASE)


def _of_markdown(text: str) -> Iterator[str]:
    """The lines outside code blocks, without text in backquotes."""
    in_code = False
    for line in text.splitlines():
        if line.startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)


def _of_python(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield re.sub(r"`+[^`]*`+", "", node.value)


def _of_pages(text: str) -> Iterator[str]:
    """Texts between tags and in quotes, and comments; not code."""
    for match in re.finditer(
        r">([^<>{}=;]*[a-z] [^<>{}=;]*)<|'([^'\n]* [^'\n]*)'|/\*\*(.*?)\*/|// (.*)", text, re.DOTALL
    ):
        yield next(group for group in match.groups() if group is not None)


_READERS = {".md": _of_markdown, ".py": _of_python, ".ts": _of_pages, ".tsx": _of_pages}


def found(phrases: Iterable[str], pairs: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each use of one of the phrases in the texts, with its place."""
    any_of = _pattern(phrases)
    return [
        f"{place}: …{text[max(0, match.start() - 40) : match.end() + 40]!r}…"
        for place, text in pairs
        for match in any_of.finditer(text)
    ]


@pytest.mark.parametrize("phrase", TRANSLATED)
def test_no_text_contains_a_translated_phrase(phrase: str) -> None:
    assert found([phrase], texts()) == [], f"write instead: {TRANSLATED[phrase]}"


@pytest.mark.parametrize("word", ONE_WORD)
def test_each_thing_is_named_by_its_word_in_the_glossary(word: str) -> None:
    others = NAMES.get(word, ())
    uses = [line for line in found([word], texts()) if not any(other in line for other in others)]
    assert uses == [], f"the glossary's word: {ONE_WORD[word]}"


def test_a_banned_phrase_is_found_in_every_kind_of_text() -> None:
    planted = {
        ".md": "The caller is told why.",
        ".py": 'def f():\n    """The caller is told why."""\n    raise ValueError("the caller is told why")\n',
        ".tsx": "return <p>The caller is told why.</p>",
    }
    for suffix, text in planted.items():
        assert found(TRANSLATED, [(suffix, each) for each in _READERS[suffix](text)]), suffix
    assert len(files()) > 600, "few files were found: is a folder missing?"
