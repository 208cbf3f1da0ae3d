"""Errors of remotes and mirrors."""

from holdfast.errors import NotFound, Unprocessable


def not_answering(what: str) -> Unprocessable:
    return Unprocessable("rclone.failed", f"The program rclone could not be used: {what}")


def unknown_remote(remote_id: int) -> NotFound:
    return NotFound("rclone.remote_not_found", "Remote not found.", remote_id=remote_id)


def not_local() -> Unprocessable:
    return Unprocessable(
        "mirror.not_local", "Only a repository in a folder of the service's own machine can be mirrored."
    )


def bad_path(why: str) -> Unprocessable:
    return Unprocessable("mirror.bad_path", why)


def bad_destination(why: str) -> Unprocessable:
    return Unprocessable("mirror.bad_destination", why)
