"""Routes for alarms."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Depends, Query

from holdfast.access import rights
from holdfast.access.caller import AdminOnly, SignedIn
from holdfast.access.roles import Role
from holdfast.alarms import acknowledge as acknowledging
from holdfast.alarms import present, store
from holdfast.alarms.models import Severity
from holdfast.alarms.schemas import AlarmAcknowledgement, AlarmItem, Alarms, AlarmSettings, AlarmSettingsChange
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, Writing
from holdfast.api.filters import Many, many
from holdfast.api.router import router
from holdfast.errors import Unprocessable
from holdfast.kit import clock
from holdfast.kit.fields import RowId
from holdfast.repositories import store as repositories

routes = router("/api/alarms", "alarms")

STATES = ("open", "acknowledged", "cleared")


@routes.get("", summary="Alarms, newest first", responses=documented(404))
def list_alarms(
    caller: SignedIn,
    session: Reading,
    state: Annotated[Many, Depends(many("state", brackets=False))],
    severity: Annotated[Many, Depends(many("severity", brackets=False))],
    repository_id: Annotated[RowId | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
) -> Alarms:
    """Alarms of the repositories that the caller may see. Those of agents and of the service are for admins.

    `state` is open, acknowledged or cleared (default: the first two), `severity` is warning or critical; both may be
    repeated.
    """
    _require_known("state", state, STATES)
    _require_known("severity", severity, tuple(Severity))
    if repository_id is not None:
        repositories.require(session, caller, repository_id, Role.VIEWER)
    now = clock.now()
    found, following = store.page(
        session,
        visible=rights.visible_repositories(session, caller),
        sees_all=caller.role is Role.ADMIN,
        states=state or STATES[:2],
        severities=severity,
        repository_id=repository_id,
        now=now,
        limit=limit,
        after=cursor,
    )
    return Alarms(alarms=present.items(session, found, now), next_cursor=following)


@routes.get("/settings", summary="What raises alarms")
def read_alarm_settings(caller: AdminOnly, session: Reading) -> AlarmSettings:
    del caller
    return acknowledging.settings(session)


@routes.put("/settings", summary="Update alarm thresholds", responses=documented(404))
def change_alarm_settings(caller: AdminOnly, wanted: AlarmSettingsChange, session: Writing) -> AlarmSettings:
    """General thresholds are replaced as a whole; those of repositories are changed individually."""
    return acknowledging.change_settings(session, caller, wanted)


@routes.post("/{alarm_id}/acknowledge", summary="Acknowledge an alarm", responses=documented(404, 409))
def acknowledge_alarm(
    caller: SignedIn, alarm_id: RowId, session: Writing, wanted: AlarmAcknowledgement | None = None
) -> AlarmItem:
    """The alarm stays open but silent until the given time, until it gets worse, or until it clears."""
    now = clock.now()
    alarm = acknowledging.acknowledge(session, caller, alarm_id, wanted or AlarmAcknowledgement(), now)
    session.flush()
    return present.items(session, [alarm], now)[0]


def _require_known(name: str, given: Sequence[str], known: Sequence[str]) -> None:
    if unknown := [word for word in given if word not in known]:
        raise Unprocessable(
            "alarms.unknown_word",
            f"`{name}` has an unknown value.",
            field=name,
            value=unknown[0],
            known=known,
        )
