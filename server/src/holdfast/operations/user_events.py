"""Events about changed users, derived from the audit trail, which records every change: access is below the outbox."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from holdfast.operations import outbox

BY_ADMINS = "users."
"""Prefix of the actions that change a user, whoever performs them."""
BY_ONESELF = frozenset(
    {
        "auth.password_changed",
        "auth.totp_enabled",
        "auth.totp_disabled",
        "auth.token_created",
        "auth.token_revoked",
    }
)
CREATED, DELETED = "users.created", "users.deleted"


def report(session: Session, entries: Sequence[Mapping[str, Any]]) -> None:
    """Publish the user changes among these entries, for admins only: nobody else may see users."""
    changes = [found for entry in entries if (found := _change(entry)) is not None]
    if changes:
        outbox.publish_for_admins(session, "user.updated", changes)


def _change(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    action = entry["action"]
    if action in BY_ONESELF:
        user_id = entry["actor_user_id"]
    elif action.startswith(BY_ADMINS) and entry["object_type"] == "user":
        user_id = entry["object_id"]
    else:
        return None
    change = {CREATED: "created", DELETED: "deleted"}.get(action, "changed")
    return {"id": int(user_id), "change": change}
