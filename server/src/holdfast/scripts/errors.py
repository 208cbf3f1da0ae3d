"""Errors about scripts."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import Conflict, NotFound, Unprocessable


def unknown(script_id: int) -> NotFound:
    return NotFound("scripts.not_found", "Script not found.", script_id=script_id)


def name_taken(name: str) -> Conflict:
    return Conflict("scripts.name_taken", "A script with this name already exists; choose another name.", name=name)


def uses_do_not_fit(schedules: Sequence[dict[str, Any]], parameter: str) -> Unprocessable:
    return Unprocessable(
        "scripts.uses_do_not_fit",
        "Schedules that use the script do not match its new parameters. Update the schedules first.",
        schedules=list(schedules),
        parameter=parameter,
    )


def bad_parameter(name: str, why: str) -> Unprocessable:
    return Unprocessable("scripts.bad_parameter", f"The parameter {name} {why}.", parameter=name)


def secret_needed(script: str, name: str, plain: Mapping[str, str]) -> Unprocessable:
    """The step may be one of several with different secrets. `plain` helps a person to find it."""
    where = ", ".join(f"{key}={value}" for key, value in plain.items())
    return Unprocessable(
        "scripts.secret_needed",
        f"Enter {name} again for the script {script}{f' ({where})' if where else ''}: several of the schedule's steps "
        "run it, and it is unclear which stored value belongs to this one. Nothing was changed.",
        script=script,
        parameter=name,
        parameters=dict(plain),
    )


def wrong_place(where: str, repository: str) -> Unprocessable:
    place = "an agent" if where == "agent" else "an ssh machine"
    return Unprocessable(
        "scripts.wrong_place",
        f"The script runs only on {place}, and the repository {repository} is not opened by one.",
        where=where,
    )
