"""The error and the warnings of a backup none of whose sources exist."""

from collections.abc import Sequence
from typing import Any

KEY = "engine.source_missing"
MOST_NAMED = 10
MOST_IN_SENTENCE = 3


def sentence(missing: Sequence[str]) -> str:
    named = ", ".join(map(_readable, missing[:MOST_IN_SENTENCE]))
    more = f" and {len(missing) - MOST_IN_SENTENCE} more" if len(missing) > MOST_IN_SENTENCE else ""
    return f"None of the source paths exist: {named}{more}. Correct the source paths, or mount what is missing."


def params(missing: Sequence[str]) -> dict[str, Any]:
    return {"missing": [_readable(path) for path in missing[:MOST_NAMED]], "count": len(missing)}


def warnings(missing: Sequence[str]) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"path": _readable(path), "message": f"{_readable(path)}: this source path does not exist"}
        for path in missing[:MOST_NAMED]
    )


def _readable(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
