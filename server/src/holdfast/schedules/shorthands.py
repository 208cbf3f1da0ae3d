"""Converts flat fields of related products into targets and steps."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.schedules import errors
from holdfast.schedules.body_schemas import FlatFields

KEEP = "prune_keep_"
FOLLOWING = {"run_prune_after": "prune", "run_compact_after": "compact", "run_check_after": "check"}
SCRIPT = "script"
SCRIPTS = {"pre_backup_script_id": "before", "post_backup_script_id": "after"}
TARGETS = ("repository", "repository_id", "repository_ids")


def given(fields: FlatFields) -> dict[str, Any]:
    """Return the shorthands in a request."""
    return {
        name: value
        for name in FlatFields.model_fields
        if name in fields.model_fields_set and (value := getattr(fields, name)) is not None
    }


def with_shorthands(steps: Sequence[Mapping[str, Any]], flat: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Given steps and shorthands, return the steps that they request together. Raise Unprocessable."""
    if flat.get("run_repository_scripts"):
        raise errors.step_unsupported(SCRIPT, "Repositories have no scripts of their own. Add scripts as steps.")
    if not flat:
        return [dict(step) for step in steps]
    scripts = _scripts([dict(step) for step in steps if step["kind"] == SCRIPT], flat)
    by_kind = {str(step["kind"]): dict(step) for step in steps if step["kind"] != SCRIPT}
    keep = {f"keep_{name.removeprefix(KEEP)}": value for name, value in flat.items() if name.startswith(KEEP)}
    if keep and "run_prune_after" not in flat and "prune" not in by_kind:
        by_kind["prune"] = {"kind": "prune"}
    for name, kind in FOLLOWING.items():
        if flat.get(name) is True:
            by_kind.setdefault(kind, {"kind": kind})
        elif flat.get(name) is False:
            by_kind.pop(kind, None)
    if "prune" in by_kind:
        by_kind["prune"].update(keep)
    if "backup" not in by_kind:
        by_kind = {"backup": {"kind": "backup"}, **by_kind}
    return [*scripts, *by_kind.values()]


def _scripts(steps: list[dict[str, Any]], flat: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the script steps: one named by a shorthand is the only script in its place, before or after the backup."""
    for name, when in SCRIPTS.items():
        if name in flat:
            steps = [step for step in steps if step.get("when", "before") != when]
            steps.append({"kind": SCRIPT, "when": when, "script_id": flat[name]})
    return steps
