"""Addresses of repositories in the cloud: rclone:REMOTE:PATH."""

PREFIX = "rclone:"


def of(remote: str, path: str) -> str:
    return f"{PREFIX}{remote}:{path}"


def identity(remote_id: int, path: str) -> str:
    """One place on one remote, independent of the remote's name."""
    return of(str(remote_id), path)


def split(text: str) -> tuple[str, str] | None:
    """The name of the remote and the path; None if the text is not an address."""
    name, colon, path = text.removeprefix(PREFIX).partition(":")
    return (name, path) if text.startswith(PREFIX) and name and colon and path else None


def path_of(text: str) -> str:
    """The path of a valid address."""
    found = split(text)
    assert found is not None
    return found[1]
