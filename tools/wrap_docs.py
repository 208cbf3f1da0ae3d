#!/usr/bin/env python3
"""Wrap the prose of Markdown files at 120 characters. Tables, code, headings and link targets are left as they are.

    tools/wrap_docs.py [--check] FILE…

With --check nothing is written; the exit code is 1 if a file has longer lines of prose.
"""

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

WIDTH = 120
ITEM = re.compile(r" *(?:[-*+]|\d+\.) +")
FENCE = re.compile(r" *(```|~~~)")
APART = re.compile(r" *(\||#|<|>|\[[^\]]+\]: |---|$)")
"""Lines that neither are nor continue prose: tables, headings, HTML, quotes, link targets, rules, empty lines."""
KEPT = re.compile(r"`[^`]*`|\]\([^)]*\)| (?:[-*+>|]|#+|\d+\.)(?= )")


def wrapped(text: str) -> str:
    """Rewrap paragraphs and list items that have a line of more than 120 characters."""
    return "\n".join(_lines(text.split("\n")))


def _lines(lines: list[str]) -> Iterator[str]:
    block: list[str] = []
    is_code = False
    for line in lines:
        starts_or_ends_code = FENCE.match(line) is not None
        is_apart = is_code or starts_or_ends_code or APART.match(line) is not None
        if is_apart or ITEM.match(line):
            yield from _block(block)
            block = []
        if starts_or_ends_code:
            is_code = not is_code
        if is_apart:
            yield line
        else:
            block.append(line)
    yield from _block(block)


def _block(block: list[str]) -> Iterator[str]:
    if all(len(line) <= WIDTH for line in block):
        yield from block
        return
    item = ITEM.match(block[0])
    first = item.group() if item else re.match(" *", block[0]).group()  # type: ignore[union-attr] # matches always
    words = " ".join(line.strip() for line in (block[0][len(first) :], *block[1:]))
    # A line must not break within code or a link target, nor begin with a character that makes it an item or a heading.
    kept = KEPT.sub(lambda found: found.group().replace(" ", "\0"), words)
    rows = textwrap.wrap(
        kept,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from (row.replace("\0", " ") for row in rows)


def main() -> int:
    check = "--check" in sys.argv[1:]
    wide = []
    for name in sys.argv[1:]:
        if name.startswith("--"):
            continue
        path = Path(name)
        text = path.read_text(encoding="utf-8")
        made = wrapped(text)
        if made != text:
            wide.append(name)
            if not check:
                path.write_text(made, encoding="utf-8")
    if check and wide:
        print("\n".join(wide))
    return int(check and bool(wide))


if __name__ == "__main__":
    sys.exit(main())
