"""Responses about scripts."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from holdfast.scripts import store
from holdfast.scripts.models import ScriptVersion, StoredScript
from holdfast.scripts.schemas import ScriptAnswer, ScriptDetail, Version

COPIED = [name for name in ScriptAnswer.model_fields if name not in ("sha256", "changed_by")]


def scripts(session: Session, found: Sequence[StoredScript]) -> list[ScriptAnswer]:
    newest = store.newest(session, found)
    return [ScriptAnswer(**_values(script, newest.get(script.id))) for script in found]


def script(
    session: Session, found: StoredScript, used_by: Sequence[dict[str, Any]], *, with_content: bool
) -> ScriptDetail:
    newest = store.version(session, found.id, found.version)
    content = newest.content if newest is not None and with_content else None
    return ScriptDetail(**_values(found, newest), content=content, used_by=list(used_by))


def _values(script: StoredScript, newest: ScriptVersion | None) -> dict[str, Any]:
    told = {"sha256": newest.sha256 if newest else "", "changed_by": newest.author if newest else ""}
    return {**{name: getattr(script, name) for name in COPIED}, **told}


def version(found: ScriptVersion) -> Version:
    return Version.from_row(found)
