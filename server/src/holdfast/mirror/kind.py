"""Shared by the operation kinds of mirrors."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from holdfast.operations.kinds import Kind, Run, retry_when_interrupted
from holdfast.operations.locks import Access
from holdfast.operations.models import Operation


def mirror_kind(
    *, name: str, activity_word: str, access: Access, params: type[BaseModel], run: Run, shows: Sequence[str]
) -> Kind:
    """Build a kind. `shows` names the result fields that an operation's detail includes."""

    def present(operation: Operation) -> dict[str, Any]:
        progress, result = operation.progress or {}, operation.result or {}
        return {
            "speed": progress.get("speed"),
            "estimated_time_remaining": progress.get("estimated_time_remaining"),
            **{name: result.get(name) for name in shows},
        }

    return Kind(
        name=name,
        category="mirror",
        activity_word=activity_word,
        limit_group="mirror",
        access=access,
        params=params,
        run=run,
        on_interrupted=retry_when_interrupted,
        present=present,
    )
