"""Errors of remotes and mirrors."""

from holdfast.errors import Conflict, NotFound, Unavailable, Unprocessable


def not_installed(configured: str) -> Unprocessable:
    return Unprocessable(
        "rclone.not_installed",
        f"The program rclone ({configured}) is not installed; install rclone or set HOLDFAST_RCLONE.",
    )


def not_answering(what: str) -> Unprocessable:
    return Unprocessable("rclone.failed", f"The program rclone could not be used: {what}")


def unknown_remote(remote_id: int) -> NotFound:
    return NotFound("rclone.remote_not_found", "There is no such remote.", remote_id=remote_id)


def name_taken() -> Conflict:
    return Conflict("rclone.name_taken", "A remote has this name already.")


def remote_in_use(repository_ids: list[int]) -> Conflict:
    return Conflict(
        "rclone.remote_in_use",
        "Repositories are stored on this remote or mirrored to it; forget them or remove their mirror settings first.",
        repository_ids=repository_ids,
    )


def unknown_provider(provider: str) -> Unprocessable:
    return Unprocessable(
        "rclone.unknown_provider",
        "This rclone has no such provider; GET /api/rclone/providers lists those that it has.",
        provider=provider,
    )


def unknown_option(option: str) -> Unprocessable:
    return Unprocessable(
        "rclone.unknown_option",
        "The provider has no such option; GET /api/rclone/providers lists its options.",
        option=option,
    )


def option_missing(option: str) -> Unprocessable:
    return Unprocessable("rclone.option_missing", f"The provider needs the option {option}.", option=option)


def no_mirror(repository_id: int) -> NotFound:
    return NotFound(
        "mirror.not_configured",
        "The repository has no mirror; PUT its mirror settings first.",
        repository_id=repository_id,
    )


def not_local() -> Unprocessable:
    return Unprocessable(
        "mirror.not_local", "Only a repository in a folder of the service's own machine can be mirrored."
    )


def place_taken(repository_id: int) -> Conflict:
    return Conflict(
        "mirror.path_taken",
        "Another repository or mirror is stored at, above or below this place; choose another path.",
        repository_id=repository_id,
    )


def bad_path(why: str) -> Unprocessable:
    return Unprocessable("mirror.bad_path", why)


def interval_missing() -> Unprocessable:
    return Unprocessable("mirror.interval_missing", "The mode interval needs interval_minutes.")


def not_confirmed() -> Unprocessable:
    return Unprocessable(
        "mirror.not_confirmed", "A hydrate fills a folder with the mirror's content; send confirm: true to start it."
    )


def bad_destination(why: str) -> Unprocessable:
    return Unprocessable("mirror.bad_destination", why)


def still_running(operation_id: int) -> Conflict:
    return Conflict(
        "mirror.operation_running",
        "A sync or hydrate of this repository is running; wait for it or cancel it first.",
        operation_id=operation_id,
    )


def place_changed() -> Unavailable:
    return Unavailable("mirror.settings_changed", "The mirror was given another place while it was in use.")
