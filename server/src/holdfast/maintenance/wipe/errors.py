"""Why a wipe is refused."""

from holdfast.errors import Conflict, NotFound, Unprocessable

STALE = (
    "wipe.preview_stale",
    "The archives have changed since the preview; make a new preview first.",
)


PROTECTED = (
    "wipe.protected",
    "Archives of this repository are protected. Nothing was removed; remove their protection first.",
)


def protected(count: int) -> Conflict:
    return Conflict(*PROTECTED, protected=count)


def preview_unknown(preview_id: int) -> NotFound:
    return NotFound("wipe.preview_not_found", "There is no such preview of this repository.", preview_id=preview_id)


def preview_stale() -> Conflict:
    return Conflict(*STALE)


def preview_used(status: str) -> Conflict:
    return Conflict("wipe.preview_used", "This preview was started or cancelled before; make a new one.", status=status)


def confirmation_mismatch() -> Unprocessable:
    return Unprocessable(
        "wipe.confirmation_mismatch",
        "Type the confirmation phrase exactly, and confirm that you understand what will be lost.",
    )
