"""Names of the actions that a caller may perform, so that clients need not duplicate the rules of the routes.

Each action names the route that performs it; a test checks that action and route agree.
"""

from collections.abc import Iterable

from backup_engine.frozen import frozen
from holdfast.access.caller import Caller
from holdfast.access.roles import Role

FORBIDDEN = "access.forbidden"
LOGIN_NEEDED = "auth.login_token_required"
SCOPE_TOO_NARROW = "auth.scope_too_narrow"


@frozen
class Action:
    name: str
    route: str
    least: Role
    needs_login: bool = False

    def refusal(self, caller: Caller, held: Role) -> str | None:
        """Return the error key with which the route would refuse a caller with this role, or None if it would not."""
        if self.needs_login and caller.session_id is None:
            return LOGIN_NEEDED
        if caller.token_scope is not None:
            ceiling = caller.token_scope.ceiling
            if ceiling is None:
                return SCOPE_TOO_NARROW
            held = min(held, ceiling)
        return FORBIDDEN if held < self.least else None


def refusals(actions: Iterable[Action], caller: Caller, held: Role) -> dict[str, str]:
    """Return the actions that the caller may not perform, each with its error key."""
    found = ((action.name, action.refusal(caller, held)) for action in actions)
    return {name: key for name, key in found if key is not None}


OF_THE_SERVICE = (
    Action("create_repository", "POST /api/repositories/", Role.ADMIN),
    Action("manage_users", "POST /api/users", Role.ADMIN, needs_login=True),
    Action("manage_machines", "POST /api/ssh-connections", Role.ADMIN),
    Action("enroll_agents", "POST /api/managed-machines/enrollment-tokens", Role.ADMIN, needs_login=True),
    Action("manage_remotes", "POST /api/rclone/remotes", Role.ADMIN),
    Action("manage_notifications", "POST /api/notifications/destinations", Role.ADMIN),
    Action("install_packages", "POST /api/packages/{package_id}/install", Role.ADMIN, needs_login=True),
    Action("control_queue", "POST /api/operations/pause", Role.ADMIN),
    Action("change_alarm_settings", "PUT /api/alarms/settings", Role.ADMIN),
    Action("create_tokens", "POST /api/settings/tokens", Role.VIEWER, needs_login=True),
)
"""Actions that do not concern a particular repository."""


def capabilities(caller: Caller) -> list[str]:
    """Return the service-wide actions that the caller may perform."""
    if caller.must_change_password:
        return []
    refused = refusals(OF_THE_SERVICE, caller, caller.role)
    return [action.name for action in OF_THE_SERVICE if action.name not in refused]
