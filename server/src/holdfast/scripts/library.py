"""The script library: adds, changes and deletes scripts, and decides who may use which."""

import hashlib
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.api.parts import Part
from holdfast.errors import ChangedMeanwhile, Conflict, Unprocessable
from holdfast.kit import clock
from holdfast.operations.step_rules import FindScriptUses, ScriptUse
from holdfast.scripts import errors, parameters, store
from holdfast.scripts.models import ScriptVersion, StoredScript
from holdfast.scripts.schemas import NewScript, ScriptChange

NULLABLE = frozenset({"description", "installed_as"})


@frozen
class Library:
    """Manages the stored scripts. `find_uses` returns all script steps of schedules."""

    secrets: parameters.Secrets
    find_uses: FindScriptUses

    def uses(self, session: Session, script_id: int) -> list[ScriptUse]:
        return [use for use in self.find_uses(session) if use.step.get("script_id") == script_id]

    def add(self, session: Session, caller: Caller, wanted: NewScript) -> StoredScript:
        store.require_unused(session, wanted.name)
        now = clock.now()
        values = wanted.model_dump(mode="json", exclude={"content"})
        script = StoredScript(**values, version=0, created_at=now, updated_at=now)
        _check_content(script, wanted.content)
        session.add(script)
        _flush(session, script)
        _add_version(session, caller, script, wanted.content)
        _audit(session, caller, "script.created", script)
        return script

    def change(self, session: Session, caller: Caller, script_id: int, wanted: ScriptChange) -> StoredScript:
        """Change a script. Queued runs keep what they were queued with. Raise NotFound, Conflict or Unprocessable."""
        script = store.lock(session, script_id)
        if wanted.version is not None and wanted.version != script.version:
            raise ChangedMeanwhile("scripts.version_conflict", "script", wanted.version, script.version)
        named = wanted.model_fields_set - {"version", "content"}
        given = wanted.model_dump(mode="json", include=named)
        given = {name: value for name, value in given.items() if value is not None or name in NULLABLE}
        if "name" in given:
            store.require_unused(session, given["name"], but=script.id)
        changed = [name for name, value in given.items() if getattr(script, name) != value]
        for name, value in given.items():
            setattr(script, name, value)
        current = store.version(session, script.id, script.version)
        content = wanted.content if wanted.content is not None else current.content if current else ""
        _check_content(script, content)
        self._check_uses(session, script)
        if current is None or content != current.content:
            _add_version(session, caller, script, content)
            changed.append("content")
        script.updated_at = clock.now()
        _flush(session, script)
        _audit(session, caller, "script.changed", script, fields=sorted(changed))
        return script

    def _check_uses(self, session: Session, script: StoredScript) -> None:
        """Raise Unprocessable if a schedule passes parameters that the script no longer has, or omits required ones."""
        for use in self.uses(session, script.id):
            kept = self.secrets.read(session, use.step.get("secret_id")) or {}
            secret = {str(one["name"]) for one in script.parameters if one["secret"]}
            try:
                parameters.checked(script.parameters, use.step.get("parameters") or {}, kept)
            except Unprocessable as error:
                raise errors.uses_do_not_fit([use.shown()], str(error.params.get("parameter"))) from error
            if exposed := secret & set(use.step.get("parameters") or {}):
                raise errors.uses_do_not_fit([use.shown()], min(exposed))

    def delete(self, session: Session, caller: Caller, script_id: int) -> None:
        script = store.lock(session, script_id)
        uses, runs = self.uses(session, script_id), store.active_runs(session, script_id)
        if uses or runs:
            shown = {use.schedule_id: use.shown() for use in uses}
            raise Conflict(
                "scripts.in_use",
                "The script is in use. Remove it from the schedules first, and wait for its runs or cancel them.",
                schedules=list(shown.values()),
                operation_ids=list(runs),
            )
        script.deleted_at = clock.now()
        _audit(session, caller, "script.deleted", script)


LIBRARY = Part[Library]("scripts")


def may_use(caller: Caller, script: StoredScript) -> bool:
    """Whether the caller may see a script, and run it wherever the caller is an operator."""
    return caller.role is Role.ADMIN or (script.operators_may_use and caller.role >= Role.OPERATOR)


def require_usable(session: Session, caller: Caller, script_id: int) -> StoredScript:
    """Return the script. Raise NotFound also if the caller may not use it, so that its existence stays hidden."""
    script = store.get(session, script_id)
    if not may_use(caller, script):
        raise errors.unknown(script_id)
    return script


def _check_content(script: StoredScript, content: str) -> None:
    if script.installed_as is not None and script.where != "agent":
        raise Unprocessable(
            "scripts.installed_elsewhere",
            "Only scripts for agents can refer to an installed file.",
            field="installed_as",
        )
    if not content.strip() and script.installed_as is None:
        raise Unprocessable(
            "scripts.content_missing",
            "The script has no content. Only scripts for agents can refer to an installed file instead.",
        )


def _add_version(session: Session, caller: Caller, script: StoredScript, content: str) -> None:
    script.version += 1
    session.add(
        ScriptVersion(
            script_id=script.id,
            version=script.version,
            content=content,
            sha256=hashlib.sha256(content.encode()).hexdigest(),
            author_id=caller.user_id,
            author=caller.username,
            created_at=clock.now(),
        )
    )
    session.flush()


def _flush(session: Session, script: StoredScript) -> None:
    try:
        session.flush()
    except IntegrityError as error:  # another request took the name at the same time
        raise errors.name_taken(script.name) from error


def _audit(session: Session, caller: Caller, action: str, script: StoredScript, **details: Any) -> None:
    details = {"name": script.name, "version": script.version, "where": script.where, **details}
    audit.note(session, caller, action, "script", script.id, details)
