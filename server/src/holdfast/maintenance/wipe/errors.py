"""Why a wipe is refused."""

from holdfast.errors import Conflict

STALE = (
    "wipe.preview_stale",
    "The archives have changed since the preview; make a new preview first.",
)


PROTECTED = (
    "wipe.protected",
    "Archives of this repository are protected. Nothing was removed; remove their protection first.",
)


def preview_stale() -> Conflict:
    return Conflict(*STALE)


def preview_used(status: str) -> Conflict:
    return Conflict(
        "wipe.preview_used", "This preview was already started or cancelled. Create a new one.", status=status
    )
