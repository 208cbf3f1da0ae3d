"""Judges whether a repository looks intact enough to replace its mirror."""

from collections.abc import Mapping
from typing import Any

from holdfast.mirror.source import Survey

KEY = "mirror.source_suspicious"
MOST_NAMED = 3
OVERRIDE = "The mirror is unchanged. Check the repository; to mirror it anyway, sync with override_sanity."


def suspicions(
    found: Survey, *, engine_id: str | None, mirrored: Mapping[str, Any] | None, shrink_percent: int
) -> list[tuple[str, str]]:
    """Given the state found, the expected id and the mirror's state, return pairs of a key and a sentence."""
    suspicious = list(found.problems)
    if found.identity and engine_id and found.identity != engine_id:
        suspicious.append(("other_repository", "The folder contains a different repository."))
    if mirrored and not found.problems:
        suspicious += _compared(found, mirrored, shrink_percent)
    return suspicious


def of_contents(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Given the findings of `contents` for a repository of engine 2, return such pairs."""
    suspicious = []
    if damaged := found["damaged"]:
        some = ", ".join(damaged[:MOST_NAMED])
        suspicious.append(("damaged", f"The content of {len(damaged)} files does not match their names: {some}."))
    if lost := found["lost"]:
        some = ", ".join(lost[:MOST_NAMED])
        suspicious.append(("segments_missing", f"{len(lost)} packs listed in its index are missing: {some}."))
    return suspicious


def _compared(found: Survey, mirrored: Mapping[str, Any], shrink_percent: int) -> list[tuple[str, str]]:
    suspicious = []
    before = int(mirrored.get("bytes") or 0)
    if found.bytes * 100 < before * (100 - shrink_percent):
        sentence = f"It has {found.bytes} bytes where the mirror has {before}, more than {shrink_percent} % less."
        suspicious.append(("shrunk", sentence))
    newest = mirrored.get("newest")
    if newest is not None and found.newest is not None and found.newest < newest:
        sentence = "It is older than its last mirrored state, so it was reset to an earlier one."
        suspicious.append(("set_back", sentence))
    return suspicious


def sentence_of(suspicious: list[tuple[str, str]]) -> str:
    return " ".join(["The repository does not look intact.", *(sentence for _, sentence in suspicious), OVERRIDE])
