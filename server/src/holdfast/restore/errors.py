"""Errors of restores."""

from holdfast.errors import NotFound, TooLarge, Unprocessable


def bad_path() -> Unprocessable:
    return Unprocessable(
        "restore.bad_path", "A path inside an archive must be relative to its root and must not contain '..'."
    )


def paths_overlap() -> Unprocessable:
    return Unprocessable(
        "restore.paths_overlap",
        "One of the paths is below another one; with contents_only both would land in the same place.",
    )


def bad_destination() -> Unprocessable:
    return Unprocessable("restore.bad_destination", "The destination must be an absolute path without '..'.")


def destination_forbidden() -> Unprocessable:
    return Unprocessable(
        "restore.destination_forbidden", "The destination is inside a repository or the service's own data."
    )


def target_forbidden(named: str) -> Unprocessable:
    return Unprocessable(
        "restore.destination_forbidden",
        f"Restored there, these paths would land in a repository or the service's own data: {named}."
        " Choose another destination.",
    )


def destination_is_link(link: str) -> Unprocessable:
    return Unprocessable(
        "restore.destination_is_link",
        f"The place {link} is a symbolic link; nothing is written through one. Name the folder that it leads to.",
    )


def destination_unusable(reason: str) -> Unprocessable:
    return Unprocessable("restore.destination_unusable", f"The destination cannot be used: {reason}.")


def unsupported_target() -> Unprocessable:
    sentence = "A restore to the service's own machine takes no destination_machine_id; leave it out."
    return Unprocessable("restore.unsupported_target", sentence)


def machine_missing() -> Unprocessable:
    return Unprocessable("restore.machine_missing", "A restore by ssh needs destination_machine_id, an ssh connection.")


def agent_missing() -> Unprocessable:
    return Unprocessable("restore.agent_missing", "A restore to an agent needs destination_machine_id, the agent.")


def unknown_agent(agent_machine_id: int) -> Unprocessable:
    sentence = "There is no such agent; enrol it first."
    return Unprocessable("restore.unknown_agent", sentence, destination_machine_id=agent_machine_id)


def agent_too_old(agent_machine_id: int) -> Unprocessable:
    sentence = "This agent has never connected, or cannot receive another machine's files; update and start it."
    return Unprocessable("restore.agent_too_old", sentence, destination_machine_id=agent_machine_id)


def unknown_machine(machine_id: int) -> Unprocessable:
    sentence = "There is no such ssh connection; add it first, and test it."
    return Unprocessable("restore.unknown_machine", sentence, destination_machine_id=machine_id)


def python_missing() -> Unprocessable:
    sentence = "A restore to an ssh machine needs Python 3.9 or newer there; install it."
    return Unprocessable("restore.python_missing", sentence)


def not_answered(words: str) -> Unprocessable:
    return Unprocessable("restore.not_answered", f"The machine could not report what is at the destination: {words}")


def path_not_found(missing: list[str]) -> NotFound:
    return NotFound("archives.path_not_found", "The archive holds no such path.", paths=missing)


def not_a_file() -> Unprocessable:
    return Unprocessable(
        "archives.not_a_file", "The path does not name a regular file; a folder is downloaded as tar or zip."
    )


def listing_too_large() -> TooLarge:
    return TooLarge("restore.listing_too_large", "The archive is too large for a preview; start a dry run instead.")
