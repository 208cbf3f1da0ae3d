"""Why a wipe is refused."""

from holdfast.errors import Conflict

STALE = (
    "wipe.preview_stale",
    "The archives have changed since the preview; create a new preview first.",
)


PROTECTED = (
    "wipe.protected",
    "This repository has protected archives. Nothing was removed; unprotect them first.",
)


def preview_stale() -> Conflict:
    return Conflict(*STALE)


def preview_used(status: str) -> Conflict:
    return Conflict(
        "wipe.preview_used", "This preview has already been started or cancelled. Create a new one.", status=status
    )
