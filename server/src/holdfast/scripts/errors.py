"""What can be wrong with a script."""

from collections.abc import Sequence
from typing import Any

from holdfast.errors import Conflict, NotFound, Unprocessable


def unknown(script_id: int) -> NotFound:
    return NotFound("scripts.not_found", "There is no such script.", script_id=script_id)


def unknown_version(script_id: int, version: int) -> NotFound:
    return NotFound(
        "scripts.version_not_found", "The script has no such version.", script_id=script_id, version=version
    )


def name_taken(name: str) -> Conflict:
    return Conflict("scripts.name_taken", "A script has this name already; choose another one.", name=name)


def version_conflict(given: int, current: int) -> Conflict:
    return Conflict(
        "scripts.version_conflict",
        "The script was changed meanwhile; nothing was changed now. Read it again and repeat your change.",
        given=given,
        current=current,
    )


def in_use(schedules: Sequence[dict[str, Any]], operations: Sequence[int]) -> Conflict:
    return Conflict(
        "scripts.in_use",
        "The script is in use. Remove it from the schedules first, and wait for its runs or cancel them.",
        schedules=list(schedules),
        operation_ids=list(operations),
    )


def uses_do_not_fit(schedules: Sequence[dict[str, Any]], parameter: str) -> Unprocessable:
    return Unprocessable(
        "scripts.uses_do_not_fit",
        "Schedules that use the script do not fit its new parameters. Change the schedules first.",
        schedules=list(schedules),
        parameter=parameter,
    )


def once_elsewhere(where: str) -> Unprocessable:
    return Unprocessable(
        "scripts.once_elsewhere",
        "A script that runs once for all repositories runs on the service's machine. "
        "Choose a script with where: service, or scope: each.",
        where=where,
    )


def bad_parameter(name: str, why: str) -> Unprocessable:
    return Unprocessable("scripts.bad_parameter", f"The parameter {name} {why}.", parameter=name)


def content_missing() -> Unprocessable:
    return Unprocessable(
        "scripts.content_missing", "A script needs content. Only one for agents may name an installed file instead."
    )


def installed_elsewhere() -> Unprocessable:
    return Unprocessable(
        "scripts.installed_elsewhere", "Only scripts for agents can name an installed file.", field="installed_as"
    )


def repository_needed(where: str) -> Unprocessable:
    place = "agent" if where == "agent" else "ssh machine"
    return Unprocessable(
        "scripts.repository_needed", f"Name a repository: the script runs on the {place} that opens it.", where=where
    )


def wrong_place(where: str, repository: str) -> Unprocessable:
    place = "an agent" if where == "agent" else "an ssh machine"
    return Unprocessable(
        "scripts.wrong_place",
        f"The script runs only on {place}, and the repository {repository} is not opened by one.",
        where=where,
    )


def machine_without_python(machine: str) -> Unprocessable:
    return Unprocessable(
        "scripts.machine_without_python",
        f"Scripts need Python 3.9 or newer on {machine}. Install it and test the connection again.",
        machine=machine,
    )
