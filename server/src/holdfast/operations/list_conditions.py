"""Query parameters that narrow any list of operations."""

from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Query
from sqlalchemy.orm import Session

from holdfast.access import rights
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.kit.fields import Moment, PlainText, RowId
from holdfast.operations import pages
from holdfast.operations.indexed_lists import ListConditions


async def _list_conditions(
    since: Annotated[Moment | None, Query(description="Created at or after this time.")] = None,
    until: Annotated[Moment | None, Query(description="Created at or before this time.")] = None,
    machine_id: Annotated[RowId | None, Query(description="On the machine of this agent.")] = None,
    triggered_by: Annotated[
        Annotated[str, PlainText(1, 200)] | None, Query(description="Name of the user who started it.")
    ] = None,
    q: Annotated[
        Annotated[str, PlainText(1, 200)] | None,
        Query(
            description="Part of the name of the repository, archive, schedule, package or user, or of the error "
            "message."
            " `q`, `machine_id` and `triggered_by` search 20,000 operations at a time, so a page may be short or empty "
            "although `next_cursor` is set."
        ),
    ] = None,
) -> ListConditions:
    return ListConditions(since, until, machine_id, triggered_by, q)


def visible_part(
    session: Session, caller: Caller, repository_id: int | None, conditions: ListConditions, wanted: pages.Filter
) -> pages.Filter | None:
    """Return the part of a list that the caller may see; None if there is none."""
    visible = rights.visible_repositories(session, caller)
    if repository_id is not None and visible is not None and repository_id not in visible:
        return None
    return replace(
        wanted,
        repositories=visible,
        of_repositories_only=caller.role is not Role.ADMIN,
        repository_id=repository_id,
        **conditions.list_conditions(),
    )


TheListConditions = Annotated[ListConditions, Depends(_list_conditions)]
